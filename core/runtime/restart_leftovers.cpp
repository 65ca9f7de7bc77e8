#include "core/runtime/restart_leftovers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "core/runtime/file_mover.hpp"
#include "flush/orphans.hpp"
#include "flush/roll_forward.hpp"
#include "redundancy/redundancy.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

namespace {

// A move or rebuild that was killed leaves files under temporary names beside those it was to make.
// They are told by these: nothing else in the directories is touched, for other ranks use them too.
void remove_leftovers(FileSystem& fs, const Directory& directory, const std::string& folder,
                      const std::set<std::string>& files, const std::vector<std::string>& starts) {
  auto entries = fs.list(At(directory, folder.empty() ? "." : folder));
  if (!entries.ok()) return;
  for (const DirectoryEntry& found : *entries) {
    if (found.type != FileInfo::Type::kRegular || !found.name.starts_with('.')) continue;
    const std::string path = folder.empty() ? found.name : folder + "/" + found.name;
    const bool rebuilt =
        folder.empty() && std::ranges::any_of(starts, [&](const auto& start) {
          return found.name.starts_with(start) && text::parse_uint(found.name.substr(start.size()));
        });
    if (!rebuilt && !files.contains(path)) continue;
    Status removed = fs.remove_if_exists(At(directory, path));
    if (removed.ok()) {
      log::info("removed '{}/{}', which a killed run left", directory.path(), path);
    } else {
      log::warning("{}", removed.message());
    }
  }
}

}  // namespace

void remove_leftovers(Context& context, const Cache& cache, int rank, int id) {
  const FilemapEntry& entry = *cache.filemap().get(rank, id);
  auto descriptor = StoredDescriptor::from_hash(entry.redundancy);
  auto directory = context.fs().open_directory(entry.directory);
  if (!descriptor.ok() || !directory.ok() || entry.directory == context.job().prefix) return;
  std::set<std::string> files;
  std::set<std::string> folders = {""};
  for (const FileMeta& meta : entry.files) {
    files.insert(moving_name(meta.file));
    folders.insert(parent_of(meta.file));
  }
  for (const FileMeta& meta : entry.files) files.erase(meta.file);  // the program calls one so
  std::vector<std::string> starts;
  for (const auto& set : descriptor->sets) {
    starts.push_back(redundancy::temporary_name_start(set, set.index_of(rank)));
  }
  for (const std::string& folder : folders) {
    remove_leftovers(context.fs(), **directory, folder, files, starts);
  }
}

LeftInPrefix left_in_prefix(Context& context, const Cache& cache,
                            const DatasetDescriptor& dataset) {
  LeftInPrefix left;
  std::array<std::int64_t, 2> sums = {0, 0};  // ranks that are listed, directories
  for (const int rank : cache.filemap().ranks(dataset.id)) {
    const FilemapEntry& entry = *cache.filemap().get(rank, dataset.id);
    ++sums[0];
    if (entry.directory != context.job().prefix) continue;
    for (const FileMeta& meta : entry.files) {
      const std::string parent = parent_of(meta.file);
      left.directories.insert(parent.empty() ? "." : parent);
    }
  }
  sums[1] = static_cast<std::int64_t>(left.directories.size());
  context.world().all_reduce(sums, ReduceOp::kSum);
  left.complete = sums[1] == 0 || sums[0] >= dataset.ranks;
  return left;
}

void remove_orphans(Context& c, const DatasetDescriptor& dataset, const LeftInPrefix& left) {
  if (left.complete) return;
  Hash send;
  for (const std::string& directory : left.directories) send.at("0").at(directory);
  Hash receive;
  Status status = exchange_hashes(c.world(), send, receive);
  if (c.rank() == 0 && status.ok()) {
    std::set<std::string> directories;
    for (const auto& process : receive.elements()) {
      for (const auto& element : process.hash.elements()) directories.insert(element.key);
    }
    status = flush::remove_orphans(c.fs(), c.job().prefix, directories, dataset);
  }
  if (!status.ok())
    log::warning("files of dataset {} may be left in the prefix directory: {}", dataset.id,
                 status.message());
  if (c.rank() == 0 && status.ok())
    log::info(
        "a node was lost while dataset {} was written to the prefix directory; what its ranks left "
        "in directories of their own 'scr_index --clean' removes",
        dataset.id);
}

Status end_committed_bypass(Context& context, const Cache& cache, int dataset) {
  if (!context.alone()) return {};
  const std::string& prefix = context.job().prefix;
  for (const int rank : cache.filemap().ranks(dataset)) {
    const FilemapEntry* entry = cache.filemap().get(rank, dataset);
    if (entry->directory != prefix) continue;
    SCR_ASSIGN_OR_RETURN(const bool ended,
                         flush::roll_forward_dataset(context.fs(), prefix, entry->dataset));
    if (ended) {
      log::info("dataset {} ('{}') was committed in the prefix directory: it is complete now",
                dataset, entry->dataset.name);
    }
  }
  return {};
}

}  // namespace scr
