// The tables of descriptor fields: all that reading, checks and documentation know of them.
#include <algorithm>

#include "core/base/descriptors.hpp"

namespace scr::config {
namespace {

constexpr std::int64_t kMostCount = 1'000'000'000;

ValueSpec boolean() { return {.type = ValueType::kBool}; }
ValueSpec count(std::int64_t min, std::int64_t max = kMostCount) {
  return {.type = ValueType::kUint, .min = min, .max = max};
}
ValueSpec word(std::vector<std::string_view> words) {
  return {.type = ValueType::kWord, .words = std::move(words)};
}
ValueSpec name() { return {.type = ValueType::kName}; }
ValueSpec directory() { return {.type = ValueType::kPath, .absolute = true}; }

DescriptorKind groups_kind() {
  return {.name = "GROUPS",
          .key_name = "host",
          .key = name(),
          .fields = {},
          .any_field = true,
          .description =
              "Says to which groups a host belongs, for groups beyond NODE and WORLD: "
              "hosts with the same value of a name are lost together.",
          .example = "GROUPS=node17 POWER=psu1 SWITCH=4"};
}

DescriptorKind store_kind() {
  return {
      .name = "STORE",
      .key_name = "directory",
      .key = directory(),
      .fields = {{"GROUP", name(), "NODE",
                  "Processes that share this storage: NODE, WORLD, or a name of a GROUPS line."},
                 {"COUNT", count(1), "SCR_CACHE_SIZE", "Number of complete datasets kept."},
                 {"ENABLED", boolean(), "1", "With 0 the store is not used."},
                 {"MKDIR", boolean(), "1", "With 0 the directory is not made, it must exist."},
                 {"FLUSH", word({"SYNC", "PTHREAD", "DAEMON"}), "SCR_FLUSH_TYPE",
                  "Who copies datasets from here to the prefix."},
                 {"BYTES",
                  {.type = ValueType::kBytes},
                  "0",
                  "Capacity that h5scr may use; 0 is all that is free."}},
      .any_field = false,
      .description = "Storage on the nodes that can cache datasets.",
      .example = "STORE=/ssd GROUP=NODE COUNT=2 BYTES=200GB"};
}

DescriptorKind redundancy_kind() {
  return {
      .name = "CKPT",
      .key_name = "index",
      .key = count(0),
      .fields =
          {{"INTERVAL", count(1), "1",
            "Takes every dataset whose id this number divides, unless a larger interval does."},
           {"GROUP", name(), "SCR_GROUP", "Processes that are lost together."},
           {"STORE", directory(), "SCR_CACHE_BASE", "Directory of a STORE line."},
           {"TYPE", word({"SINGLE", "PARTNER", "XOR", "RS"}), "SCR_COPY_TYPE",
            "Redundancy scheme."},
           {"BYPASS", boolean(), "SCR_CACHE_BYPASS",
            "With 1 these datasets are written straight to the prefix."},
           {"SET_SIZE", count(2, 256), "SCR_SET_SIZE", "Number of processes in a redundancy set."},
           {"SET_FAILURES", count(1, 255), "SCR_SET_FAILURES",
            "Number of members that a set of scheme RS can lose."},
           {"OUTPUT", boolean(), "0", "With 1 this line goes first for output datasets."},
           {"ENABLED", boolean(), "1", "With 0 the line is not used."}},
      .any_field = false,
      .description = "How datasets in the cache are protected, and where they are kept.",
      .example = "CKPT=1 INTERVAL=4 STORE=/ssd TYPE=RS SET_SIZE=8 SET_FAILURES=2"};
}

DescriptorKind route_kind() {
  return {
      .name = "ROUTE",
      .key_name = "pattern",
      .key = {.type = ValueType::kGlob},
      .fields =
          {{"TYPE", word({"CKPT", "OUTPUT", "BYPASS"}), "CKPT",
            "What matching files are: parts of checkpoints, of output, or none of our business.",
            true},
           {"DATASET",
            {.type = ValueType::kRegex, .empty_allowed = true},
            "",
            "Regular expression (ECMAScript), searched in the path below SCR_PREFIX, whose first "
            "group is the name of the dataset; else the path without extension and rank number: "
            "`run/ckpt_0007.3.h5` is of `run/ckpt_0007`."},
           {"COMPLETE",
            {.type = ValueType::kWord, .words = {"CLOSE"}, .empty_allowed = true},
            "",
            "CLOSE completes a dataset at the FILES-th close instead of at the next collective "
            "point."},
           {"FILES", count(0), "0",
            "Number of closes that complete a dataset, with COMPLETE=CLOSE."},
           {"SNAPSHOT", boolean(), "0",
            "With 1 a file that stays open is kept as it is at each flush (H5Fflush) instead of "
            "being moved to its name; not for files that several processes have open together."}},
      .any_field = false,
      .description =
          "Which files of programs that do not call SCR_* go to the cache; the first "
          "matching line counts. A pattern without a slash is for the last part of the name, one "
          "with a slash for the path below SCR_PREFIX, one that begins with a slash for the whole "
          "path; * ? [...] stop at slashes, ** between slashes is any number of directories. "
          "Without ROUTE lines all files below SCR_PREFIX are routed, and every dataset is "
          "flushed; with them, files that no line matches are left alone.",
      .example = "ROUTE='*/plt*.h5' TYPE=OUTPUT DATASET='plt([0-9]+)'"};
}

}  // namespace

std::span<const DescriptorKind> descriptor_kinds() {
  static const auto& kinds = *new std::vector<DescriptorKind>{
      groups_kind(), store_kind(), redundancy_kind(), route_kind()};  // used after main(), too
  return kinds;
}

const DescriptorKind* find_descriptor_kind(std::string_view name) {
  for (const DescriptorKind& kind : descriptor_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

const Field* find_field(const DescriptorKind& kind, std::string_view name) {
  for (const Field& field : kind.fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

}  // namespace scr::config
