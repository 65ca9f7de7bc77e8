// Descriptors: configuration lines with several fields (GROUPS, STORE, CKPT, ROUTE).
//
// One table per kind says which fields a line may have, of which type and with which default;
// reading, checks and documentation come from it. The structs are what the rest of h5scr uses;
// their defaults are filled in. Not thread-safe to change; safe to read from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config_parser.hpp"
#include "core/base/config_value.hpp"

namespace scr::config {

// --- tables --------------------------------------------------------------------------------------

struct Field {
  std::string_view name;
  ValueSpec spec;
  // In the form of a file, or the name of the parameter whose value is the default.
  std::string_view default_text;
  std::string_view description;  // one sentence
  bool required = false;
};

struct DescriptorKind {
  std::string_view name;      // "STORE"
  std::string_view key_name;  // what stands after "STORE=", in words
  ValueSpec key;
  std::vector<Field> fields;
  bool any_field;  // fields may have any name, each is text
  std::string_view description;
  std::string_view example;
};

std::span<const DescriptorKind> descriptor_kinds();
const DescriptorKind* find_descriptor_kind(std::string_view name);
const Field* find_field(const DescriptorKind& kind, std::string_view name);

// Adds to `errors` all that is wrong with the line by itself: names, values, missing fields.
void check_descriptor_line(const DescriptorKind& kind, const Setting& setting,
                           std::vector<std::string>& errors);

// --- in memory -----------------------------------------------------------------------------------

enum class CopyType { kSingle, kPartner, kXor, kRs };
std::string_view copy_type_name(CopyType type);

enum class FlushType { kSync, kPthread, kDaemon };
std::string_view flush_type_name(FlushType type);

struct GroupDescriptor {
  std::string host;
  std::vector<std::pair<std::string, std::string>> groups;  // name of the group, value on this host
  Origin origin;
};

struct StoreDescriptor {
  std::string directory;
  std::string group;        // processes that share this storage
  std::uint64_t count = 1;  // complete datasets kept
  bool enabled = true;
  bool make_directory = true;
  FlushType flush = FlushType::kSync;
  std::uint64_t bytes = 0;  // capacity; 0: as much as is free
  Origin origin;
};

struct RedundancyDescriptor {
  std::uint64_t index = 0;
  std::uint64_t interval = 1;
  std::string group;  // processes that fail together
  std::string store;  // directory of a StoreDescriptor
  CopyType type = CopyType::kXor;
  bool bypass = false;
  std::uint64_t set_size = 8;
  std::uint64_t set_failures = 2;
  bool output = false;  // preferred for datasets that are output
  bool enabled = true;
  Origin origin;
};

struct RouteRule {
  enum class Type { kCheckpoint, kOutput, kBypass };
  std::string pattern;
  Type type = Type::kCheckpoint;
  std::optional<std::string> dataset;  // regular expression whose first group names the dataset
  std::uint64_t complete_files = 0;    // seal at this many closes; 0: at the next collective point
  bool snapshot = false;               // files that stay open are kept at each flush
  Origin origin;
};

std::string_view route_type_name(RouteRule::Type type);

struct Descriptors {
  std::vector<GroupDescriptor> groups;
  std::vector<StoreDescriptor> stores;
  std::vector<RedundancyDescriptor> redundancy;  // by index
  std::vector<RouteRule> routes;                 // first match wins

  const StoreDescriptor* find_store(std::string_view directory) const;
};

// --- from lines to structs --------------------------------------------------------------------

// Lines that passed check_descriptor_line, of the source that counts for each kind.
struct DescriptorLines {
  std::vector<Setting> groups;
  std::vector<Setting> stores;
  std::vector<Setting> redundancy;
  std::vector<Setting> routes;

  std::vector<Setting>& of(std::string_view kind);
  const std::vector<Setting>& of(std::string_view kind) const;
};

// What descriptors need to know of the parameters.
struct ParameterView {
  std::function<Value(std::string_view name)> value;
  bool cache_base_is_set = false;  // not left at its default
};

// Fills in defaults. Without STORE lines there is one store, SCR_CACHE_BASE; without CKPT lines one
// CKPT=0 for all checkpoints.
Descriptors make_descriptors(const DescriptorLines& lines, const ParameterView& parameters);

// The line that describes the same, with every field.
Setting to_setting(const GroupDescriptor& group);
Setting to_setting(const StoreDescriptor& store);
Setting to_setting(const RedundancyDescriptor& descriptor);
Setting to_setting(const RouteRule& rule);

// Adds to `errors` what does not fit together between lines: unknown stores and groups, checkpoints
// without or with two descriptors, fields that exclude each other.
void check_descriptors(const Descriptors& descriptors, std::vector<std::string>& errors);

// The enabled descriptor whose INTERVAL is the largest that divides the id; for output, one with
// OUTPUT=1 goes first. nullptr if no descriptor takes this id.
const RedundancyDescriptor* select_descriptor(std::span<const RedundancyDescriptor> descriptors,
                                              std::uint64_t id, bool output);

}  // namespace scr::config
