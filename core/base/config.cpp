#include "core/base/config.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/config_layers.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"

namespace scr::config {
namespace {

Status first_of(const std::vector<std::string>& errors) {
  if (errors.empty()) return {};
  if (errors.size() == 1) return invalid_argument(errors.front());
  return invalid_argument(fmt::format("{} (and {} more errors; scr_print_config lists all)",
                                      errors.front(), errors.size() - 1));
}

// The setting of the strongest layer that has one.
const Setting* strongest(const std::vector<Layer>& layers, std::string_view name) {
  for (const Layer& layer : layers) {
    if (const Setting* setting = layer.find(name)) return setting;
  }
  return nullptr;
}

std::vector<Setting> strongest_lines(const std::vector<Layer>& layers, std::string_view kind) {
  for (const Layer& layer : layers) {
    if (!layer.has(kind)) continue;
    std::vector<Setting> lines;
    for (const Setting& setting : layer.settings) {
      if (setting.name == kind) lines.push_back(setting);
    }
    return lines;
  }
  return {};
}

std::string default_text(const Parameter& parameter, const ConfigSources& sources, bool async) {
  if (parameter.name == "SCR_PREFIX") return sources.environment.working_directory();
  if (parameter.name == "SCR_FLUSH_TYPE") return async ? "PTHREAD" : "SYNC";
  const bool transparent = sources.mode == Mode::kTransparent;
  return std::string(transparent && !parameter.transparent_default.empty()
                         ? parameter.transparent_default
                         : parameter.default_text);
}

[[noreturn]] void caller_bug(std::string_view name, std::string_view what) {
  log::error("bug in h5scr: configuration parameter '{}' {}", name, what);
  std::abort();
}

}  // namespace

Result<Config> Config::resolve(ConfigSources sources, std::vector<std::string>* errors) {
  Config config;
  Findings findings;
  const std::vector<Layer> layers = read_layers(sources, findings);
  if (errors != nullptr) *errors = findings.errors;
  if (!findings.errors.empty()) return first_of(findings.errors);
  config.sources_ = std::move(sources);
  config.warnings_ = std::move(findings.warnings);
  // SCR_FLUSH_ASYNC stands before SCR_FLUSH_TYPE in the table, whose default depends on it.
  for (const Parameter& parameter : parameters()) {
    const Setting* setting = strongest(layers, parameter.name);
    const auto async = config.entries_.find("SCR_FLUSH_ASYNC");
    const bool is_async = async != config.entries_.end() && std::get<bool>(async->second.value);
    const std::string text =
        setting != nullptr ? setting->value : default_text(parameter, config.sources_, is_async);
    SCR_ASSIGN_OR_RETURN(Value value, parse_value(parameter.spec, text));
    config.entries_.emplace(parameter.name,
                            Entry{std::move(value), setting ? setting->origin : Origin{}});
  }
  for (const DescriptorKind& kind : descriptor_kinds()) {
    config.lines_.of(kind.name) = strongest_lines(layers, kind.name);
  }
  const ParameterView view{
      .value = [&](std::string_view name) { return config.entries_.find(name)->second.value; },
      .cache_base_is_set = config.origin("SCR_CACHE_BASE").source != Source::kDefault};
  config.descriptors_ = make_descriptors(config.lines_, view);
  return config;
}

Status Config::check(std::vector<std::string>* errors) const {
  std::vector<std::string> found;
  check_descriptors(descriptors_, found);
  const Status covered = check_every_id_covered();
  if (!covered.ok()) found.emplace_back(covered.message());
  if (lines_.redundancy.empty() && get_string("SCR_COPY_TYPE") == "FILE") {
    found.push_back(
        fmt::format("{}: SCR_COPY_TYPE is FILE, but no CKPT line says which scheme to "
                    "use; add one or choose SINGLE, PARTNER, XOR or RS",
                    origin("SCR_COPY_TYPE").to_string()));
  }
  if (errors != nullptr) *errors = found;
  return first_of(found);
}

Result<Config> Config::build(ConfigSources sources, std::vector<std::string>* errors) {
  SCR_ASSIGN_OR_RETURN(Config config, resolve(std::move(sources), errors));
  SCR_RETURN_IF_ERROR(config.check(errors));
  return config;
}

Result<std::optional<std::string>> Config::call(std::string_view text) {
  const auto context = [&] { return fmt::format("SCR_Config(\"{}\")", text::escape(text)); };
  const Result<std::vector<Word>> words = parse_line(text, sources_.environment);
  if (!words.ok()) return words.status().with_context(context());
  if (words->empty()) {
    return invalid_argument(context() + ": nothing to set or to ask for; write NAME=value or NAME");
  }
  if (!words->back().has_value) {
    Result<std::optional<std::string>> answer = query(*words);
    if (!answer.ok()) return answer.status().with_context(context());
    return answer;
  }
  ConfigSources sources = sources_;
  sources.calls.emplace_back(text);
  Result<Config> changed = resolve(std::move(sources));
  if (!changed.ok()) return changed.status().with_context(context());
  *this = std::move(changed).value();
  return std::optional<std::string>();
}

Result<std::optional<std::string>> Config::query(const std::vector<Word>& words) const {
  const auto non_empty = [](std::string text) {
    return text.empty() ? std::optional<std::string>() : std::optional(std::move(text));
  };
  if (words.size() == 1) {
    if (find_parameter(words[0].name) != nullptr) return non_empty(get_string(words[0].name));
    return invalid_argument(fmt::format("unknown parameter '{}'{}", words[0].name,
                                        suggest_names(words[0].name, parameter_names())));
  }
  const DescriptorKind* kind = find_descriptor_kind(words[0].name);
  if (words.size() != 2 || kind == nullptr || !words[0].has_value) {
    return invalid_argument("ask for a parameter (NAME) or for a field (KIND=key FIELD)");
  }
  const Field* field = find_field(*kind, words[1].name);
  if (field == nullptr && !kind->any_field) {
    return invalid_argument(fmt::format("{} has no field '{}'", kind->name, words[1].name));
  }
  SCR_ASSIGN_OR_RETURN(const Value key, parse_value(kind->key, words[0].value));
  for (const Setting& line : lines_.of(kind->name)) {
    if (parse_value(kind->key, line.value).value() != key) continue;
    for (const Word& word : line.fields) {
      if (word.name == words[1].name) return non_empty(word.value);
    }
    if (field == nullptr) break;
    const std::string_view text = field->default_text;
    return non_empty(text.starts_with("SCR_") ? get_string(text) : std::string(text));
  }
  return std::optional<std::string>();
}

const Config::Entry& Config::entry(std::string_view name, ValueType type) const {
  const Parameter* parameter = find_parameter(name);
  if (parameter == nullptr) caller_bug(name, "does not exist");
  if (parameter->spec.type != type) caller_bug(name, "has another type");
  return entries_.find(name)->second;
}

bool Config::get_bool(std::string_view name) const {
  return std::get<bool>(entry(name, ValueType::kBool).value);
}

std::int64_t Config::get_int(std::string_view name) const {
  return std::get<std::int64_t>(entry(name, ValueType::kInt).value);
}

std::uint64_t Config::get_uint(std::string_view name) const {
  return std::get<std::uint64_t>(entry(name, ValueType::kUint).value);
}

std::uint64_t Config::get_bytes(std::string_view name) const {
  return std::get<std::uint64_t>(entry(name, ValueType::kBytes).value);
}

double Config::get_double(std::string_view name) const {
  const Parameter* parameter = find_parameter(name);
  const bool is_percent = parameter != nullptr && parameter->spec.type == ValueType::kPercent;
  return std::get<double>(
      entry(name, is_percent ? ValueType::kPercent : ValueType::kSeconds).value);
}

std::string Config::get_string(std::string_view name) const {
  const Parameter* parameter = find_parameter(name);
  if (parameter == nullptr) caller_bug(name, "does not exist");
  return print_value(parameter->spec, entries_.find(name)->second.value);
}

std::string Config::get_path(std::string_view name) const {
  std::string path = std::get<std::string>(entry(name, ValueType::kPath).value);
  if (path.empty()) return path;
  const std::filesystem::path directory = sources_.environment.working_directory();
  return normalize_path((directory / path).native());
}

const Origin& Config::origin(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) caller_bug(name, "does not exist");
  return found->second.origin;
}

FlushType Config::flush_type() const {
  const std::string word = get_string("SCR_FLUSH_TYPE");
  if (word == flush_type_name(FlushType::kDaemon)) return FlushType::kDaemon;
  return word == flush_type_name(FlushType::kSync) ? FlushType::kSync : FlushType::kPthread;
}

const RedundancyDescriptor* Config::descriptor_for(std::uint64_t id, bool output) const {
  return select_descriptor(descriptors_.redundancy, id, output);
}

Status Config::check_every_id_covered() const {
  // Only INTERVAL=1 divides id 1, and it divides all others too.
  if (descriptor_for(1) != nullptr) return {};
  const std::vector<RedundancyDescriptor>& all = descriptors_.redundancy;
  return invalid_argument(
      fmt::format("{}: no enabled CKPT line has INTERVAL=1, so that checkpoint 1 and others belong "
                  "to none; add "
                  "one",
                  all.front().origin.to_string()));
}

}  // namespace scr::config
