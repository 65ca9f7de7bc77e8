// scr_print_config: prints the configuration in force, where each value comes from, and the
// documentation of all parameters.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.hpp"
#include "core/base/config_docs.hpp"
#include "core/base/text.hpp"

namespace {

using scr::config::Config;
using scr::config::Parameter;
using scr::config::Setting;

enum ExitCode { kSuccess = 0, kBadConfiguration = 1, kBadUsage = 2 };

struct Options {
  std::string name;
  std::string prefix;
  std::optional<std::string> system_file;
  bool json = false;
  bool docs = false;
  bool transparent = false;
};

constexpr const char* kFooter =
    "Errors and warnings go to standard error.\n"
    "Exit codes: 0 success; 1 the configuration has errors or cannot be read, or NAME is unknown;\n"
    "2 wrong use of this command.";

void add_options(CLI::App& app, Options& options) {
  app.footer(kFooter);
  app.add_option("NAME", options.name, "Print the value of this parameter only");
  app.add_option("--prefix", options.prefix, "Directory to use as SCR_PREFIX, also for .scrconf");
  app.add_option("--system-file", options.system_file,
                 "Read this system file instead of the installed one, to try it out");
  app.add_flag("--transparent", options.transparent,
               "Show the defaults for programs that do not call SCR_*");
  CLI::Option* json = app.add_flag("--json", options.json, "Print JSON");
  app.add_flag("--docs", options.docs, "Print docs/parameters.md")->excludes(json);
}

void print_error(std::string_view message) {
  fmt::print(stderr, "scr_print_config: {}\n", message);
}

std::optional<Config> load(const Options& options) {
  scr::config::Environment environment = scr::config::Environment::current();
  if (!options.prefix.empty()) environment.set("SCR_PREFIX", options.prefix);
  scr::config::ReadOptions read_options;
  if (options.system_file) read_options.system_file = *options.system_file;
  auto sources = scr::config::read_files(scr::file_system(), environment, read_options);
  if (!sources.ok()) {
    print_error(sources.status().message());
    return std::nullopt;
  }
  if (options.transparent) sources->mode = scr::config::Mode::kTransparent;
  std::vector<std::string> errors;
  auto config = Config::build(*std::move(sources), &errors);
  for (const std::string& error : errors) print_error("error: " + error);
  if (!config.ok()) return std::nullopt;
  for (const std::string& warning : config->warnings()) print_error("warning: " + warning);
  return *std::move(config);
}

// Every descriptor in force, also the ones that defaults made.
std::vector<Setting> descriptors_of(const Config& config) {
  std::vector<Setting> settings;
  const auto add = [&](const auto& list) {
    for (const auto& one : list) settings.push_back(scr::config::to_setting(one));
  };
  add(config.groups());
  add(config.stores());
  add(config.redundancy());
  add(config.routes());
  return settings;
}

void print_table(const Config& config) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  for (const Parameter& parameter : scr::config::parameters()) {
    name_width = std::max(name_width, parameter.name.size());
    value_width = std::max(value_width, config.get_string(parameter.name).size());
  }
  constexpr std::size_t kWidestColumn = 40;
  value_width = std::min(value_width, kWidestColumn);
  for (const Parameter& parameter : scr::config::parameters()) {
    fmt::print("{:<{}}  {:<{}}  {}\n", parameter.name, name_width,
               scr::text::escape(config.get_string(parameter.name)), value_width,
               scr::text::escape(config.origin(parameter.name).to_string()));
  }
  fmt::print("\n");
  for (const Setting& setting : descriptors_of(config)) {
    fmt::print("{}  # {}\n", scr::text::escape(scr::config::print_setting(setting)),
               scr::text::escape(setting.origin.to_string()));
  }
}

nlohmann::ordered_json origin_json(const scr::config::Origin& origin) {
  nlohmann::ordered_json json = {{"source", scr::config::source_name(origin.source)}};
  if (!origin.file.empty()) json["file"] = origin.file;
  if (origin.line != 0) json["line"] = origin.line;
  return json;
}

void print_json(const Config& config) {
  nlohmann::ordered_json json;
  for (const Parameter& parameter : scr::config::parameters()) {
    json["parameters"][std::string(parameter.name)] = {
        {"value", config.get_string(parameter.name)},
        {"origin", origin_json(config.origin(parameter.name))}};
  }
  json["descriptors"] = nlohmann::ordered_json::array();
  for (const Setting& setting : descriptors_of(config)) {
    nlohmann::ordered_json fields = {{setting.name, setting.value}};
    for (const auto& field : setting.fields) fields[field.name] = field.value;
    json["descriptors"].push_back({{"fields", fields}, {"origin", origin_json(setting.origin)}});
  }
  // Paths need not be UTF-8, JSON must be.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  fmt::print("{}\n", json.dump(2, ' ', false, kReplace));
}

int print_one(const Config& config, const Options& options) {
  const std::string value = config.get_string(options.name);
  if (options.json) {
    constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", nlohmann::json(value).dump(-1, ' ', false, kReplace));
  } else {
    fmt::print("{}\n", value);
  }
  return kSuccess;
}

int run(const Options& options) {
  if (options.docs) {
    fmt::print("{}", scr::config::documentation());
    return kSuccess;
  }
  if (!options.name.empty() && scr::config::find_parameter(options.name) == nullptr) {
    print_error(
        fmt::format("unknown parameter '{}'{}", scr::text::escape(options.name),
                    scr::config::suggest_names(options.name, scr::config::parameter_names())));
    return kBadConfiguration;
  }
  const std::optional<Config> config = load(options);
  if (!config) return kBadConfiguration;
  if (!options.name.empty()) return print_one(*config, options);
  options.json ? print_json(*config) : print_table(*config);
  return kSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Prints the configuration of h5scr and where each value comes from.",
               "scr_print_config");
  add_options(app, options);
  try {
    app.parse(argc, argv);
    const int code = run(options);
    if (std::fflush(stdout) == 0) return code;
    print_error("cannot write to standard output");
    return kBadConfiguration;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kBadUsage;
  } catch (const std::exception& error) {  // fmt::print reports a failed write this way
    print_error(error.what());
    return kBadConfiguration;
  }
}
