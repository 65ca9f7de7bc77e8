#include "core/base/descriptors.hpp"

#include <algorithm>

#include "core/base/byte_size.hpp"

namespace scr::config {
namespace {

// Typed access to the fields of one line; lines were checked, so that every value parses.
class FieldReader {
 public:
  FieldReader(std::string_view kind, const Setting& setting, const ParameterView& parameters)
      : kind_(*find_descriptor_kind(kind)), setting_(setting), parameters_(parameters) {}

  Value key() const { return parse_value(kind_.key, setting_.value).value(); }
  bool flag(std::string_view name) const { return std::get<bool>(value(name)); }
  std::uint64_t number(std::string_view name) const { return std::get<std::uint64_t>(value(name)); }
  std::string text(std::string_view name) const { return std::get<std::string>(value(name)); }

 private:
  Value value(std::string_view name) const {
    const Field* field = find_field(kind_, name);
    for (const Word& word : setting_.fields) {
      if (word.name == name) return parse_value(field->spec, word.value).value();
    }
    if (field->default_text.starts_with("SCR_")) return parameters_.value(field->default_text);
    return parse_value(field->spec, field->default_text).value();
  }

  const DescriptorKind& kind_;
  const Setting& setting_;
  const ParameterView& parameters_;
};

FlushType flush_type_from(std::string_view word) {
  if (word == "PTHREAD") return FlushType::kPthread;
  return word == "DAEMON" ? FlushType::kDaemon : FlushType::kSync;
}

// "FILE" (the CKPT lines say it) on a line that does not say it means the default scheme.
CopyType copy_type_from(std::string_view word) {
  if (word == "SINGLE") return CopyType::kSingle;
  if (word == "PARTNER") return CopyType::kPartner;
  return word == "RS" ? CopyType::kRs : CopyType::kXor;
}

RouteRule::Type route_type_from(std::string_view word) {
  if (word == "OUTPUT") return RouteRule::Type::kOutput;
  return word == "BYPASS" ? RouteRule::Type::kBypass : RouteRule::Type::kCheckpoint;
}

std::string flag_text(bool flag) { return flag ? "1" : "0"; }

GroupDescriptor make_group(const Setting& setting) {
  GroupDescriptor group{.host = setting.value, .groups = {}, .origin = setting.origin};
  for (const Word& word : setting.fields) group.groups.emplace_back(word.name, word.value);
  return group;
}

StoreDescriptor make_store(const Setting& setting, const ParameterView& parameters) {
  const FieldReader fields("STORE", setting, parameters);
  return {.directory = std::get<std::string>(fields.key()),
          .group = fields.text("GROUP"),
          .count = fields.number("COUNT"),
          .enabled = fields.flag("ENABLED"),
          .make_directory = fields.flag("MKDIR"),
          .flush = flush_type_from(fields.text("FLUSH")),
          .bytes = fields.number("BYTES"),
          .origin = setting.origin};
}

RedundancyDescriptor make_redundancy(const Setting& setting, const ParameterView& parameters,
                                     const std::string& default_store) {
  const FieldReader fields("CKPT", setting, parameters);
  const bool names_store = std::any_of(setting.fields.begin(), setting.fields.end(),
                                       [](const Word& word) { return word.name == "STORE"; });
  return {.index = std::get<std::uint64_t>(fields.key()),
          .interval = fields.number("INTERVAL"),
          .group = fields.text("GROUP"),
          .store = names_store ? fields.text("STORE") : default_store,
          .type = copy_type_from(fields.text("TYPE")),
          .bypass = fields.flag("BYPASS"),
          .set_size = fields.number("SET_SIZE"),
          .set_failures = fields.number("SET_FAILURES"),
          .output = fields.flag("OUTPUT"),
          .enabled = fields.flag("ENABLED"),
          .origin = setting.origin};
}

RouteRule make_route(const Setting& setting, const ParameterView& parameters) {
  const FieldReader fields("ROUTE", setting, parameters);
  RouteRule rule{.pattern = std::get<std::string>(fields.key()),
                 .type = route_type_from(fields.text("TYPE")),
                 .dataset = fields.text("DATASET"),
                 .complete_files = fields.number("FILES"),
                 .snapshot = fields.flag("SNAPSHOT"),
                 .origin = setting.origin};
  if (rule.dataset->empty()) rule.dataset.reset();
  return rule;
}

// Adds the store of SCR_CACHE_BASE where the lines leave it out, and returns the directory that a
// CKPT line without STORE uses.
std::string add_default_store(const ParameterView& parameters, Descriptors& descriptors) {
  const std::string base = std::get<std::string>(parameters.value("SCR_CACHE_BASE"));
  if (descriptors.find_store(base) != nullptr) return base;
  if (!descriptors.stores.empty() && !parameters.cache_base_is_set) {
    return descriptors.stores.front().directory;
  }
  const Setting line{.name = "STORE", .value = base};
  descriptors.stores.push_back(make_store(line, parameters));
  return base;
}

}  // namespace

std::string_view copy_type_name(CopyType type) {
  switch (type) {
    case CopyType::kSingle:
      return "SINGLE";
    case CopyType::kPartner:
      return "PARTNER";
    case CopyType::kXor:
      return "XOR";
    case CopyType::kRs:
      return "RS";
  }
  return "";
}

std::string_view flush_type_name(FlushType type) {
  switch (type) {
    case FlushType::kSync:
      return "SYNC";
    case FlushType::kPthread:
      return "PTHREAD";
    case FlushType::kDaemon:
      return "DAEMON";
  }
  return "";
}

std::string_view route_type_name(RouteRule::Type type) {
  switch (type) {
    case RouteRule::Type::kCheckpoint:
      return "CKPT";
    case RouteRule::Type::kOutput:
      return "OUTPUT";
    case RouteRule::Type::kBypass:
      return "BYPASS";
  }
  return "";
}

const StoreDescriptor* Descriptors::find_store(std::string_view directory) const {
  const auto found = std::find_if(stores.begin(), stores.end(), [&](const StoreDescriptor& store) {
    return store.directory == directory;
  });
  return found == stores.end() ? nullptr : &*found;
}

const std::vector<Setting>& DescriptorLines::of(std::string_view kind) const {
  if (kind == "GROUPS") return groups;
  if (kind == "STORE") return stores;
  return kind == "CKPT" ? redundancy : routes;
}

std::vector<Setting>& DescriptorLines::of(std::string_view kind) {
  return const_cast<std::vector<Setting>&>(std::as_const(*this).of(kind));
}

Descriptors make_descriptors(const DescriptorLines& lines, const ParameterView& parameters) {
  Descriptors result;
  for (const Setting& line : lines.groups) result.groups.push_back(make_group(line));
  for (const Setting& line : lines.stores) result.stores.push_back(make_store(line, parameters));
  const std::string default_store = add_default_store(parameters, result);
  for (const Setting& line : lines.redundancy) {
    result.redundancy.push_back(make_redundancy(line, parameters, default_store));
  }
  if (lines.redundancy.empty()) {
    const Setting line{.name = "CKPT", .value = "0"};
    result.redundancy.push_back(make_redundancy(line, parameters, default_store));
  }
  std::sort(result.redundancy.begin(), result.redundancy.end(),
            [](const auto& left, const auto& right) { return left.index < right.index; });
  for (const Setting& line : lines.routes) result.routes.push_back(make_route(line, parameters));
  return result;
}

Setting to_setting(const GroupDescriptor& group) {
  Setting setting{.name = "GROUPS", .value = group.host, .origin = group.origin};
  for (const auto& [name, value] : group.groups) setting.fields.push_back({name, true, value});
  return setting;
}

Setting to_setting(const StoreDescriptor& store) {
  return {.name = "STORE",
          .value = store.directory,
          .fields = {{"GROUP", true, store.group},
                     {"COUNT", true, std::to_string(store.count)},
                     {"ENABLED", true, flag_text(store.enabled)},
                     {"MKDIR", true, flag_text(store.make_directory)},
                     {"FLUSH", true, std::string(flush_type_name(store.flush))},
                     {"BYTES", true, format_byte_size(store.bytes)}},
          .origin = store.origin};
}

Setting to_setting(const RedundancyDescriptor& descriptor) {
  return {.name = "CKPT",
          .value = std::to_string(descriptor.index),
          .fields = {{"INTERVAL", true, std::to_string(descriptor.interval)},
                     {"GROUP", true, descriptor.group},
                     {"STORE", true, descriptor.store},
                     {"TYPE", true, std::string(copy_type_name(descriptor.type))},
                     {"BYPASS", true, flag_text(descriptor.bypass)},
                     {"SET_SIZE", true, std::to_string(descriptor.set_size)},
                     {"SET_FAILURES", true, std::to_string(descriptor.set_failures)},
                     {"OUTPUT", true, flag_text(descriptor.output)},
                     {"ENABLED", true, flag_text(descriptor.enabled)}},
          .origin = descriptor.origin};
}

Setting to_setting(const RouteRule& rule) {
  Setting setting{.name = "ROUTE", .value = rule.pattern, .origin = rule.origin};
  setting.fields.push_back({"TYPE", true, std::string(route_type_name(rule.type))});
  if (rule.dataset) setting.fields.push_back({"DATASET", true, *rule.dataset});
  if (rule.complete_files != 0) {
    setting.fields.push_back({"COMPLETE", true, "CLOSE"});
    setting.fields.push_back({"FILES", true, std::to_string(rule.complete_files)});
  }
  if (rule.snapshot) setting.fields.push_back({"SNAPSHOT", true, flag_text(true)});
  return setting;
}

const RedundancyDescriptor* select_descriptor(std::span<const RedundancyDescriptor> descriptors,
                                              std::uint64_t id, bool output) {
  const auto best = [&](bool only_output) {
    const RedundancyDescriptor* chosen = nullptr;
    for (const RedundancyDescriptor& one : descriptors) {
      if (!one.enabled || id % one.interval != 0 || (only_output && !one.output)) continue;
      const bool larger = chosen == nullptr || one.interval > chosen->interval;
      // Of two with the same interval, the one that is not meant for output is for checkpoints.
      const bool plainer =
          chosen != nullptr && one.interval == chosen->interval && chosen->output && !one.output;
      if (larger || plainer) chosen = &one;
    }
    return chosen;
  };
  if (output) {
    if (const RedundancyDescriptor* chosen = best(true)) return chosen;
  }
  return best(false);
}

}  // namespace scr::config
