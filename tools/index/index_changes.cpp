#include "tools/index/index_changes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/flush.hpp"
#include "flush/intent.hpp"
#include "flush/roll_forward.hpp"
#include "flush/save.hpp"
#include "flush/scavenge.hpp"
#include "flush/summary.hpp"

namespace scr::tools {
namespace {

using flush::Index;
using flush::IndexEntry;

// A dataset by its name, by the name of its directory below .scr, or by its number (the newest that
// has it).
const IndexEntry* find(const Index& index, const std::string& name) {
  if (const IndexEntry* entry = index.find_name(name)) return entry;
  if (const IndexEntry* entry = index.find_directory(name)) return entry;
  const auto number = text::parse_int(name);
  const auto found = std::ranges::find_if(
      index.entries(), [&](const IndexEntry& entry) { return number && entry.id() == *number; });
  return found == index.entries().end() ? nullptr : &*found;
}

Status unknown(const std::string& name) {
  return not_found(fmt::format("there is no dataset '{}' in the index; 'scr_index' lists them",
                               text::escape(name)));
}

Status change(FileSystem& fs, const std::string& prefix, const std::string& name,
              const std::function<void(Index&, IndexEntry&)>& action) {
  return flush::update_index(fs, prefix, [&](Index& index) -> Status {
    const IndexEntry* entry = find(index, name);
    if (entry == nullptr) return unknown(name);
    action(index, *index.find_directory(entry->directory));
    return {};
  });
}

// What a scavenge has brought to its directory before the nodes were gone: rebuilds what is
// missing, and commits it.
Status end_scavenge(FileSystem& fs, const std::string& prefix, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(const flush::Scan scan, flush::scan_dataset(fs, prefix, directory));
  if (!scan.complete())
    SCR_RETURN_IF_ERROR(flush::rebuild_missing(fs, prefix, directory, scan).status());
  return flush::commit_scavenge(fs, prefix, directory);
}

// A flush or scavenge that was cut, before or after its summary was written. No program may be at
// it: that would end it itself.
Result<std::string> end_flush(FileSystem& fs, const std::string& prefix,
                              const std::string& directory, const flush::Intent& intent) {
  SCR_ASSIGN_OR_RETURN(const auto lock,
                       flush::lock_prefix(fs, prefix, std::chrono::milliseconds(0)));
  const auto summary = flush::read_summary(fs, prefix + "/.scr/" + directory);
  if (summary.ok()) {
    SCR_RETURN_IF_ERROR(flush::roll_forward_dataset(fs, prefix, summary->dataset).status());
    SCR_ASSIGN_OR_RETURN(const Index index, flush::read_index(fs, prefix));
    if (index.find_directory(directory) != nullptr) return summary->dataset.name;
    return failed_precondition(
        fmt::format("'{}' cannot be added: a newer dataset has taken the places of its files",
                    summary->dataset.name));
  }
  const StatusCode code = summary.status().code();
  if (code != StatusCode::kNotFound && code != StatusCode::kCorrupt) return summary.status();
  SCR_RETURN_IF_ERROR(end_scavenge(fs, prefix, directory));
  return intent.dataset.name;
}

}  // namespace

Result<std::string> add_dataset(FileSystem& fs, const std::string& prefix,
                                const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(const std::string safe, safe_relative_path(directory));
  const std::string path = prefix + "/.scr/" + safe;
  const auto intent = flush::read_intent(fs, path);
  if (intent.ok()) return end_flush(fs, prefix, safe, *intent);
  SCR_ASSIGN_OR_RETURN(const auto summary, flush::read_summary(fs, path));
  SCR_RETURN_IF_ERROR(flush::add_to_index(fs, prefix, safe, summary));
  return summary.dataset.name;
}

Result<BuiltIndex> build_index(FileSystem& fs, const std::string& prefix) {
  BuiltIndex built;
  // Before a change of a new index removes the link, which the index does not know of.
  const std::string linked = flush::linked_dataset(fs, prefix);
  SCR_ASSIGN_OR_RETURN(built.set_aside, flush::set_damaged_index_aside(fs, prefix));
  SCR_RETURN_IF_ERROR(flush::roll_forward(fs, prefix, nullptr));
  SCR_ASSIGN_OR_RETURN(const auto directories, flush::dataset_directories(fs, prefix));
  std::vector<IndexEntry> found;
  for (const std::string& directory : directories) {
    const auto summary = flush::read_summary(fs, prefix + "/.scr/" + directory);
    if (!summary.ok()) {
      built.left_out.emplace_back(summary.status().message());
      continue;
    }
    IndexEntry& entry = found.emplace_back();
    entry.directory = directory;
    entry.dataset = summary->dataset;
    entry.complete = summary->complete;
    entry.flushed = flush::timestamp_now();
  }
  SCR_RETURN_IF_ERROR(flush::update_index(fs, prefix, [&](Index& index) -> Status {
    built.added = 0;
    for (const IndexEntry& entry : found) {
      if (index.find_directory(entry.directory) != nullptr) continue;
      index.put(entry);
      ++built.added;
    }
    if (index.current().empty() && index.find_directory(linked) != nullptr)
      index.set_current(linked);
    return {};
  }));
  return built;
}

Status set_current(FileSystem& fs, const std::string& prefix, const std::string& name) {
  return flush::update_index(fs, prefix, [&](Index& index) -> Status {
    const IndexEntry* entry = find(index, name);
    if (entry == nullptr) return unknown(name);
    SCR_RETURN_IF_ERROR(flush::check_restartable(*entry));
    index.choose_current(std::string(entry->directory), flush::choice_time(index));
    return {};
  });
}

Result<IndexEntry> current_dataset(FileSystem& fs, const std::string& prefix) {
  SCR_ASSIGN_OR_RETURN(const Index index, flush::read_index(fs, prefix));
  const IndexEntry* entry = index.find_directory(index.current());
  if (entry == nullptr) return not_found("no dataset is current");
  return *entry;
}

Result<RestartAfterClear> clear_failed(FileSystem& fs, const std::string& prefix,
                                       const std::string& name) {
  RestartAfterClear after;
  SCR_RETURN_IF_ERROR(change(fs, prefix, name, [&](Index& index, IndexEntry& entry) {
    entry.failed.clear();
    after = {.cleared = entry.dataset.name};
    const auto candidates = index.restart_candidates();
    if (!candidates.empty()) after.restart = candidates.front()->dataset.name;
    // Entries are in order, newest first.
    const bool older = candidates.empty() || candidates.front() > &entry;
    after.passes_over = older && entry.complete && entry.dataset.is_checkpoint();
  }));
  return after;
}

Status drop_dataset(FileSystem& fs, const std::string& prefix, const std::string& name) {
  SCR_ASSIGN_OR_RETURN(const Index before, flush::read_index(fs, prefix));
  if (const IndexEntry* entry = find(before, name))
    SCR_RETURN_IF_ERROR(flush::end_last_step(fs, prefix, *entry));
  return change(fs, prefix, name, [](Index& index, IndexEntry& entry) {
    const std::string directory = entry.directory;
    if (index.current() == directory) index.set_current("");
    index.remove(directory);
  });
}

Status delete_dataset_and_files(FileSystem& fs, const std::string& prefix,
                                const std::string& name) {
  SCR_ASSIGN_OR_RETURN(const Index index, flush::read_index(fs, prefix));
  const IndexEntry* entry = find(index, name);
  return entry != nullptr ? flush::delete_dataset(fs, prefix, entry->directory) : unknown(name);
}

}  // namespace scr::tools
