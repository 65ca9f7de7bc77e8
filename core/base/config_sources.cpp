#include "core/base/config_sources.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "core/base/config_parser.hpp"
#include "core/base/config_value.hpp"
#include "core/base/text.hpp"

#ifndef H5SCR_SYSTEM_CONFIG
#define H5SCR_SYSTEM_CONFIG "/etc/scr/scr.conf"
#endif

namespace scr::config {
namespace {

constexpr std::string_view kPrefixOfNames = "SCR_";
constexpr std::uint64_t kMaxFileSize = 1 << 20;

// The text of a file; nothing if there is no file of that name.
Result<std::optional<SourceFile>> read_if_exists(FileSystem& files, const std::string& path) {
  const Result<FileInfo> info = files.info(path, /*follow=*/true);
  if (!info.ok()) {
    if (info.status().code() == StatusCode::kNotFound) return std::optional<SourceFile>();
    return info.status().with_context("cannot read the configuration");
  }
  if (info->type != FileInfo::Type::kRegular) {
    return invalid_argument(
        fmt::format("cannot read configuration '{}': it is not a regular file", path));
  }
  if (info->size > kMaxFileSize) {
    return invalid_argument(
        fmt::format("cannot read configuration '{}': it has {} bytes, more than the {} that a "
                    "configuration may "
                    "have",
                    path, info->size, kMaxFileSize));
  }
  OpenOptions options = OpenOptions::read();
  options.no_follow = false;
  SCR_ASSIGN_OR_RETURN(const auto file, files.open(path, options));
  std::string text(info->size, '\0');
  SCR_ASSIGN_OR_RETURN(const std::size_t length,
                       file->read(std::as_writable_bytes(std::span(text)), 0));
  text.resize(length);
  if (text.find('\0') != std::string::npos) {
    return invalid_argument(
        fmt::format("cannot read configuration '{}': it has NUL bytes, so it is no text", path));
  }
  return std::optional<SourceFile>(SourceFile{path, std::move(text)});
}

// The last SCR_PREFIX of the system file, if it has one; its errors are found when it is parsed.
std::optional<std::string> prefix_of_file(const std::optional<SourceFile>& file,
                                          const Environment& environment) {
  if (!file) return std::nullopt;
  std::optional<std::string> prefix;
  for (const Setting& setting : parse_text(*file, Source::kSystemFile, environment).settings) {
    if (setting.name == "SCR_PREFIX" && !setting.value.empty()) prefix = setting.value;
  }
  return prefix;
}

Result<std::string> find_prefix(const ConfigSources& sources, const ReadOptions& options) {
  const std::string directory = sources.environment.working_directory();
  std::optional<std::string> prefix = sources.environment.get("SCR_PREFIX");
  if (prefix && !prefix->empty()) {
    Result<std::string> expanded = expand_variables(*prefix, sources.environment);
    if (!expanded.ok()) return expanded.status().with_context("environment variable SCR_PREFIX");
    prefix = *expanded;
  } else {
    prefix =
        options.prefix ? options.prefix : prefix_of_file(sources.system_file, sources.environment);
  }
  if (!prefix) return directory;
  return normalize_path((std::filesystem::path(directory) / *prefix).native());
}

Status read_user_file(FileSystem& files, const ReadOptions& options, ConfigSources& sources) {
  const std::optional<std::string> named = sources.environment.get("SCR_CONF_FILE");
  if (!named || named->empty()) {
    SCR_ASSIGN_OR_RETURN(const std::string prefix, find_prefix(sources, options));
    SCR_ASSIGN_OR_RETURN(sources.user_file, read_if_exists(files, prefix + "/.scrconf"));
    return {};
  }
  Result<std::string> expanded = expand_variables(*named, sources.environment);
  if (!expanded.ok()) return expanded.status().with_context("environment variable SCR_CONF_FILE");
  const std::filesystem::path path =
      std::filesystem::path(sources.environment.working_directory()) / *expanded;
  SCR_ASSIGN_OR_RETURN(sources.user_file, read_if_exists(files, path.native()));
  if (sources.user_file) return {};
  return not_found(fmt::format(
      "cannot read configuration '{}': No such file or directory; correct or unset SCR_CONF_FILE",
      path.native()));
}

Hash file_to_hash(const SourceFile& file) {
  Hash hash;
  hash.set_value("PATH", file.path);
  hash.set_value("TEXT", file.text);
  return hash;
}

Result<std::optional<SourceFile>> file_from_hash(const Hash* hash) {
  if (hash == nullptr) return std::optional<SourceFile>();
  SourceFile file;
  SCR_ASSIGN_OR_RETURN(file.path, hash->require_value("PATH"));
  SCR_ASSIGN_OR_RETURN(file.text, hash->require_value("TEXT"));
  return std::optional<SourceFile>(std::move(file));
}

// Names that `text` refers to as $NAME or ${NAME}.
void add_variables_of(std::string_view text, std::set<std::string, std::less<>>& names) {
  for (std::size_t dollar = text.find('$'); dollar != std::string_view::npos;
       dollar = text.find('$', dollar + 1)) {
    std::string_view rest = text.substr(dollar + 1);
    if (rest.starts_with('{')) rest.remove_prefix(1);
    const std::string_view name = leading_name(rest);
    if (!name.empty()) names.emplace(name);
  }
}

// Where the first setting ends: at a line end, or at a ';' that is not in quotes as the parser of
// the configuration reads them (config_parser.cpp).
std::size_t end_of_setting(std::string_view text) {
  char quote = '\0';
  const std::size_t start = text.find_first_not_of(" \t\r\v\f");  // as it will be trimmed
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '\n' || (letter == ';' && quote == '\0')) return at;
    const bool word_begins =
        at == start || (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t'));
    if (letter == '#' && quote == '\0' && word_begins) {
      return std::min(text.find_first_of(";\n", at), text.size());
    }
    if (letter == '\\' && quote != '\'' && at + 1 < text.size() && text[at + 1] != '\n') {
      if (text[at + 1] != ';') ++at;  // an escaped quote is none
    } else if (letter == quote) {
      quote = '\0';
    } else if (quote == '\0' && (letter == '"' || letter == '\'')) {
      quote = letter;
    }
  }
  return text.size();
}

}  // namespace

std::string_view source_name(Source source) {
  switch (source) {
    case Source::kEnvironment:
      return "environment";
    case Source::kUserFile:
      return "user file";
    case Source::kCall:
      return "SCR_Config";
    case Source::kSystemFile:
      return "system file";
    case Source::kDefault:
      return "default";
  }
  return "";
}

std::string Origin::to_string() const {
  switch (source) {
    case Source::kUserFile:
    case Source::kSystemFile:
      return fmt::format("{}:{}", file, line);
    case Source::kCall:
      return fmt::format("SCR_Config call {}", line);
    default:
      return std::string(source_name(source));
  }
}

Environment Environment::current() {
  Values values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(values));
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

void Environment::set(std::string_view name, std::string_view value) {
  values_.insert_or_assign(std::string(name), std::string(value));
}

std::string Environment::working_directory() const {
  const std::optional<std::string> pwd = get("PWD");
  if (pwd && pwd->starts_with('/')) return normalize_path(*pwd);
  std::error_code error;
  const std::filesystem::path path = std::filesystem::current_path(error);
  return error ? "/" : path.native();
}

Hash ConfigSources::to_hash() const {
  std::set<std::string, std::less<>> names = {"PWD"};
  for (const auto& file : {user_file, system_file}) {
    if (file) add_variables_of(file->text, names);
  }
  for (const std::string& call : calls) add_variables_of(call, names);
  for (const auto& [name, value] : environment.values()) {
    if (!name.starts_with(kPrefixOfNames)) continue;
    names.insert(name);
    add_variables_of(value, names);
  }
  Hash hash;
  hash.set_value("MODE", mode == Mode::kTransparent ? "TRANSPARENT" : "NATIVE");
  Hash& variables = hash.at("ENV");
  for (const std::string& name : names) {
    if (const auto value = environment.get(name)) variables.set_value(name, *value);
  }
  if (user_file) hash.set("USER", file_to_hash(*user_file));
  if (system_file) hash.set("SYSTEM", file_to_hash(*system_file));
  Hash& list = hash.at("CALL");
  for (std::size_t i = 0; i < calls.size(); ++i) list.set_value(std::to_string(i), calls[i]);
  return hash;
}

Result<ConfigSources> ConfigSources::from_hash(const Hash& hash, const Environment& local) {
  ConfigSources sources;
  for (const auto& [name, value] : local.values()) {
    if (!name.starts_with(kPrefixOfNames)) sources.environment.set(name, value);
  }
  if (const Hash* variables = hash.get("ENV")) {
    for (const Hash::Element& element : variables->elements()) {
      SCR_ASSIGN_OR_RETURN(const std::string value, variables->require_value(element.key));
      sources.environment.set(element.key, value);
    }
  }
  SCR_ASSIGN_OR_RETURN(const std::string mode_word, hash.require_value("MODE"));
  sources.mode = mode_word == "TRANSPARENT" ? Mode::kTransparent : Mode::kNative;
  SCR_ASSIGN_OR_RETURN(sources.user_file, file_from_hash(hash.get("USER")));
  SCR_ASSIGN_OR_RETURN(sources.system_file, file_from_hash(hash.get("SYSTEM")));
  const Hash* list = hash.get("CALL");
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    SCR_ASSIGN_OR_RETURN(std::string call, list->require_value(std::to_string(i)));
    sources.calls.push_back(std::move(call));
  }
  return sources;
}

std::vector<std::string> split_settings(std::string_view text) {
  std::vector<std::string> settings;
  while (!text.empty()) {
    const std::size_t end = end_of_setting(text);
    const std::string_view line = text::trim(text.substr(0, end));
    if (!line.empty()) settings.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return settings;
}

std::string ReadOptions::default_system_file() { return H5SCR_SYSTEM_CONFIG; }

Result<ConfigSources> read_files(FileSystem& files, Environment environment,
                                 const ReadOptions& options) {
  ConfigSources sources;
  sources.environment = std::move(environment);
  if (!options.system_file.empty()) {
    SCR_ASSIGN_OR_RETURN(sources.system_file, read_if_exists(files, options.system_file));
  }
  SCR_RETURN_IF_ERROR(read_user_file(files, options, sources));
  return sources;
}

}  // namespace scr::config
