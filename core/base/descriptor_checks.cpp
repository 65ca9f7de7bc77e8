// Checks of descriptor lines: each by itself, and all of them together.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/descriptors.hpp"
#include "core/base/parameters.hpp"
#include "core/base/text.hpp"

namespace scr::config {
namespace {

constexpr std::string_view kNode = "NODE";
constexpr std::string_view kWorld = "WORLD";

std::string line_name(const DescriptorKind& kind, const Setting& setting) {
  return fmt::format("{}={}", kind.name, text::escape(setting.value));
}

// Collects errors about one line, each with its place and the line's name.
class LineErrors {
 public:
  LineErrors(std::string prefix, std::vector<std::string>& errors)
      : prefix_(std::move(prefix)), errors_(errors) {}
  void add(std::string_view message) { errors_.push_back(prefix_ + std::string(message)); }

 private:
  std::string prefix_;
  std::vector<std::string>& errors_;
};

LineErrors errors_of(std::string_view kind, std::string_view key, const Origin& origin,
                     std::vector<std::string>& errors) {
  return {fmt::format("{}: {}={}: ", origin.to_string(), kind, text::escape(key)), errors};
}

std::string unknown_field(const DescriptorKind& kind, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Field& field : kind.fields) names.push_back(field.name);
  return fmt::format("unknown field '{}'{}", name, suggest_names(name, names));
}

void check_field(const DescriptorKind& kind, const Word& word, LineErrors& errors) {
  if (kind.any_field) {
    if (word.name == kNode || word.name == kWorld) {
      errors.add(fmt::format("the group '{}' always exists; choose another name", word.name));
    } else if (word.value.empty()) {
      errors.add(
          fmt::format("the group '{}' has no value; write {}=<value>", word.name, word.name));
    }
    return;
  }
  const Field* field = find_field(kind, word.name);
  if (field == nullptr) return errors.add(unknown_field(kind, word.name));
  const Result<Value> value = parse_value(field->spec, word.value);
  if (!value.ok()) errors.add(fmt::format("{}: {}", word.name, value.status().message()));
}

// --- all lines together

std::set<std::string_view> group_names(const Descriptors& descriptors) {
  std::set<std::string_view> names = {kNode, kWorld};
  for (const GroupDescriptor& line : descriptors.groups) {
    for (const auto& [name, value] : line.groups) names.insert(name);
  }
  return names;
}

void check_group(std::string_view group, const std::set<std::string_view>& known,
                 LineErrors& errors) {
  if (known.contains(group)) return;
  const std::vector<std::string_view> names(known.begin(), known.end());
  errors.add(fmt::format("unknown group '{}'; use NODE, WORLD or a name of a GROUPS line{}",
                         text::escape(group), suggest_names(group, names)));
}

void check_redundancy(const RedundancyDescriptor& one, const Descriptors& descriptors,
                      LineErrors& errors) {
  check_group(one.group, group_names(descriptors), errors);
  const StoreDescriptor* store = descriptors.find_store(one.store);
  if (store == nullptr) {
    std::vector<std::string_view> names;
    for (const StoreDescriptor& each : descriptors.stores) names.push_back(each.directory);
    errors.add(fmt::format("unknown store '{}'; add a STORE line for it{}", text::escape(one.store),
                           suggest_names(one.store, names)));
  } else if (!store->enabled && one.enabled) {
    errors.add(fmt::format("the store '{}' has ENABLED=0; choose another one or set ENABLED=0 here",
                           text::escape(one.store)));
  }
  if (one.type == CopyType::kRs && one.set_failures >= one.set_size) {
    errors.add(
        fmt::format("a set of {} processes cannot lose {}; with TYPE=RS make SET_FAILURES "
                    "smaller than SET_SIZE",
                    one.set_size, one.set_failures));
  }
}

// Which of two descriptors takes an id must be clear.
void check_intervals(const Descriptors& descriptors, std::vector<std::string>& errors) {
  std::set<std::pair<std::uint64_t, bool>> seen;
  for (const RedundancyDescriptor& one : descriptors.redundancy) {
    if (!one.enabled || seen.emplace(one.interval, one.output).second) continue;
    errors_of("CKPT", std::to_string(one.index), one.origin, errors)
        .add(fmt::format("another CKPT line has INTERVAL={} too; change one or set ENABLED=0",
                         one.interval));
  }
}

void check_route(const RouteRule& rule, LineErrors& errors) {
  if (rule.snapshot && rule.complete_files != 0) {
    errors.add(
        "SNAPSHOT=1 keeps files that stay open, and COMPLETE=CLOSE waits for their close; remove "
        "one of them");
  }
  if (rule.type != RouteRule::Type::kBypass) return;
  if (rule.dataset || rule.complete_files != 0 || rule.snapshot) {
    errors.add("TYPE=BYPASS leaves the file alone; remove DATASET, COMPLETE, FILES and SNAPSHOT");
  }
}

// COMPLETE and FILES only make sense together.
void check_completion(const Setting& setting, LineErrors& errors) {
  const auto has = [&](std::string_view name) {
    return std::any_of(setting.fields.begin(), setting.fields.end(), [&](const Word& word) {
      return word.name == name && !word.value.empty() && word.value != "0";
    });
  };
  if (has("COMPLETE") && !has("FILES")) {
    errors.add("COMPLETE=CLOSE needs FILES=n, the number of closes that complete a dataset");
  }
  if (has("FILES") && !has("COMPLETE")) errors.add("FILES=n needs COMPLETE=CLOSE");
}

}  // namespace

void check_descriptor_line(const DescriptorKind& kind, const Setting& setting,
                           std::vector<std::string>& errors) {
  LineErrors line(
      {fmt::format("{}: {}: ", setting.origin.to_string(), line_name(kind, setting)), errors});
  const Result<Value> key = parse_value(kind.key, setting.value);
  if (!key.ok()) line.add(fmt::format("{}: {}", kind.key_name, key.status().message()));
  std::set<std::string_view> seen;
  for (const Word& word : setting.fields) {
    if (!seen.insert(word.name).second) {
      line.add(fmt::format("the field '{}' stands there twice; remove one", word.name));
    }
    check_field(kind, word, line);
  }
  for (const Field& field : kind.fields) {
    if (field.required && !seen.contains(field.name)) {
      line.add(fmt::format("the field '{}' is missing; add {}=<{}>", field.name, field.name,
                           describe(field.spec)));
    }
  }
  if (kind.any_field && setting.fields.empty()) {
    line.add("no group is given; add NAME=<value>");
  }
  if (kind.name == "ROUTE") check_completion(setting, line);
}

void check_descriptors(const Descriptors& descriptors, std::vector<std::string>& errors) {
  const std::set<std::string_view> groups = group_names(descriptors);
  for (const StoreDescriptor& store : descriptors.stores) {
    LineErrors line = errors_of("STORE", store.directory, store.origin, errors);
    check_group(store.group, groups, line);
  }
  for (const RedundancyDescriptor& one : descriptors.redundancy) {
    LineErrors line = errors_of("CKPT", std::to_string(one.index), one.origin, errors);
    check_redundancy(one, descriptors, line);
  }
  check_intervals(descriptors, errors);
  for (const RouteRule& rule : descriptors.routes) {
    LineErrors line = errors_of("ROUTE", rule.pattern, rule.origin, errors);
    check_route(rule, line);
  }
}

}  // namespace scr::config
