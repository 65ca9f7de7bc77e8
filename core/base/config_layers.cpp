#include "core/base/config_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/base/text.hpp"

namespace scr::config {
namespace {

std::string where(const Setting& setting) {
  if (setting.origin.source != Source::kEnvironment) return setting.origin.to_string();
  return "environment variable " + setting.name;
}

std::string suggestion(std::string_view name) {
  std::vector<std::string_view> names(parameter_names().begin(), parameter_names().end());
  for (const DescriptorKind& kind : descriptor_kinds()) names.push_back(kind.name);
  return suggest_names(name, names);
}

void check_parameter(const Parameter& parameter, const Setting& setting,
                     std::vector<std::string>& errors) {
  // The place of a variable is its name already.
  const bool from_environment = setting.origin.source == Source::kEnvironment;
  const std::string start = where(setting) + (from_environment ? "" : ": " + setting.name);
  const auto add = [&](std::string_view message) {
    errors.push_back(fmt::format("{}: {}", start, message));
  };
  if (!setting.fields.empty()) {
    add(
        fmt::format("'{}' stands after the value; quote a value that has blanks, and write one "
                    "parameter a line",
                    text::escape(setting.fields.front().name)));
  }
  if (parameter.set_by == SetBy::kEnvironmentOnly && !from_environment) {
    add("it can only be set in the environment, as it is used before any file is read");
  }
  const Result<Value> value = parse_value(parameter.spec, setting.value);
  if (!value.ok()) add(value.status().message());
}

void check_setting(const Setting& setting, std::vector<std::string>& errors) {
  if (const Parameter* parameter = find_parameter(setting.name)) {
    check_parameter(*parameter, setting, errors);
  } else if (const DescriptorKind* kind = find_descriptor_kind(setting.name)) {
    check_descriptor_line(*kind, setting, errors);
  } else {
    errors.push_back(fmt::format("{}: unknown parameter '{}'{}", where(setting),
                                 text::escape(setting.name.substr(0, 64)),
                                 suggestion(setting.name)));
  }
}

// What makes two lines the same: the name of a parameter, or kind and key of a descriptor.
std::string identity(const Setting& setting) {
  const DescriptorKind* kind = find_descriptor_kind(setting.name);
  if (kind == nullptr) return setting.name;
  const Result<Value> key = parse_value(kind->key, setting.value);
  return setting.name + "=" + (key.ok() ? print_value(kind->key, *key) : setting.value);
}

// Checks the settings and keeps those without errors.
std::vector<Setting> checked(std::vector<Setting> settings, std::vector<std::string>& errors) {
  std::erase_if(settings, [&](const Setting& setting) {
    const std::size_t before = errors.size();
    check_setting(setting, errors);
    return errors.size() != before;
  });
  return settings;
}

Layer read_environment(const Environment& environment, Findings& findings) {
  Layer layer{.source = Source::kEnvironment};
  for (const auto& [name, value] : environment.values()) {
    if (!name.starts_with("SCR_") || is_other_known_variable(name)) continue;
    if (find_parameter(name) == nullptr) {
      findings.warnings.push_back(fmt::format("environment: unknown parameter '{}' has no effect{}",
                                              text::escape(name), suggestion(name)));
      continue;
    }
    if (value.empty()) continue;  // VARIABLE= in a shell is the way to say "not set"
    const Result<std::string> expanded = expand_variables(value, environment);
    if (!expanded.ok()) {
      findings.errors.push_back(
          fmt::format("environment variable {}: {}", name, expanded.status().message()));
      continue;
    }
    layer.settings.push_back(
        {.name = name, .value = *expanded, .origin = {.source = Source::kEnvironment}});
  }
  layer.settings = checked(std::move(layer.settings), findings.errors);
  return layer;
}

Layer read_file(const std::optional<SourceFile>& file, Source source,
                const Environment& environment, Findings& findings) {
  Layer layer{.source = source};
  if (!file) return layer;
  ParsedText parsed = parse_text(*file, source, environment);
  std::move(parsed.errors.begin(), parsed.errors.end(), std::back_inserter(findings.errors));
  layer.settings = checked(std::move(parsed.settings), findings.errors);
  std::map<std::string, int> lines;
  for (const Setting& setting : layer.settings) {
    const auto [first, is_new] = lines.emplace(identity(setting), setting.origin.line);
    if (is_new) continue;
    findings.errors.push_back(fmt::format("{}: {} is already set in line {}; remove one",
                                          where(setting), text::escape(first->first),
                                          first->second));
  }
  return layer;
}

void erase_field(Setting& setting, std::string_view name) {
  std::erase_if(setting.fields, [&](const Word& field) { return field.name == name; });
}

// A later call changes the fields that it names and leaves the others.
void merge_fields(const Setting& from, Setting& into) {
  for (const Word& field : from.fields) {
    erase_field(into, field.name);
    if (!field.value.empty()) into.fields.push_back(field);
  }
  into.origin = from.origin;
}

void apply_call(const Setting& call, std::vector<Setting>& settings) {
  if (call.value.empty()) {
    std::erase_if(settings, [&](const Setting& old) { return old.name == call.name; });
    return;
  }
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting& old) {
    return identity(old) == identity(call);
  });
  Setting fresh{.name = call.name, .value = call.value, .origin = call.origin};
  Setting& target = found == settings.end() ? settings.emplace_back(std::move(fresh)) : *found;
  target.value = call.value;
  merge_fields(call, target);
}

// The call without what it takes back ("NAME="), which no check of values would pass.
Setting without_removals(Setting call) {
  std::erase_if(call.fields, [](const Word& field) { return field.value.empty(); });
  return call;
}

bool is_known(const Setting& setting) {
  return find_parameter(setting.name) != nullptr || find_descriptor_kind(setting.name) != nullptr;
}

Layer read_calls(const ConfigSources& sources, Findings& findings) {
  Layer layer{.source = Source::kCall};
  Origin origin{.source = Source::kCall, .file = {}, .line = 0};
  for (const std::string& text : sources.calls) {
    ++origin.line;
    const SourceFile line{.path = {}, .text = text};
    ParsedText parsed = parse_text(line, Source::kCall, sources.environment);
    std::move(parsed.errors.begin(), parsed.errors.end(), std::back_inserter(findings.errors));
    for (Setting& setting : parsed.settings) {
      setting.origin = origin;
      const std::size_t before = findings.errors.size();
      const bool removes_all = setting.value.empty() && setting.fields.empty() && is_known(setting);
      if (!removes_all) check_setting(without_removals(setting), findings.errors);
      if (findings.errors.size() == before) apply_call(setting, layer.settings);
    }
  }
  return layer;
}

bool is_users(const Layer& layer) {
  return layer.source != Source::kSystemFile && layer.source != Source::kDefault;
}

void warn_ignored(const Setting& setting, std::string_view why, Findings& findings) {
  findings.warnings.push_back(fmt::format("{}: {}={} is ignored: {}", where(setting), setting.name,
                                          text::escape(setting.value), why));
}

// Directories that the system file allows for caches; none if it does not say.
std::set<std::string> allowed_stores(const Layer& system) {
  std::set<std::string> allowed;
  for (const Setting& setting : system.settings) {
    if (setting.name == "STORE" || setting.name == "SCR_CACHE_BASE") {
      allowed.insert(normalize_path(setting.value));
    }
  }
  return allowed;
}

// Why a user may not make this setting; empty if it is fine.
std::string refusal(const Setting& setting, const Layer& system,
                    const std::set<std::string>& allowed) {
  const Parameter* parameter = find_parameter(setting.name);
  if (parameter != nullptr && parameter->set_by == SetBy::kSystemFirst) {
    const Setting* fixed = system.find(setting.name);
    if (fixed != nullptr && normalize_path(fixed->value) != normalize_path(setting.value)) {
      return fmt::format("the system file sets it to '{}' ({})", text::escape(fixed->value),
                         fixed->origin.to_string());
    }
  }
  const bool is_store = setting.name == "STORE" || setting.name == "SCR_CACHE_BASE";
  if (is_store && !allowed.empty() && !allowed.contains(normalize_path(setting.value))) {
    return "the system file lists the directories for caches, and this is none of them";
  }
  return "";
}

void drop_refused(std::vector<Layer>& layers, Findings& findings) {
  const Layer system = layers.back();
  const std::set<std::string> allowed = allowed_stores(system);
  for (Layer& layer : layers) {
    if (!is_users(layer)) continue;
    std::erase_if(layer.settings, [&](const Setting& setting) {
      const std::string why = refusal(setting, system, allowed);
      if (!why.empty()) warn_ignored(setting, why, findings);
      return !why.empty();
    });
  }
}

}  // namespace

const Setting* Layer::find(std::string_view name) const {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const Setting& setting) { return setting.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

std::vector<Layer> read_layers(const ConfigSources& sources, Findings& findings) {
  const Environment& environment = sources.environment;
  std::vector<Layer> layers;
  layers.push_back(read_environment(environment, findings));
  layers.push_back(read_file(sources.user_file, Source::kUserFile, environment, findings));
  layers.push_back(read_calls(sources, findings));
  layers.push_back(read_file(sources.system_file, Source::kSystemFile, environment, findings));
  drop_refused(layers, findings);
  return layers;
}

}  // namespace scr::config
