#include "tools/index/extract.hpp"

#include <fmt/format.h>

#include <set>

#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/rank_ranges.hpp"

namespace scr::tools {
namespace {

Status extract_file(FileSystem& fs, const std::string& prefix, const DatasetFile& file,
                    const Directory& directory) {
  SCR_ASSIGN_OR_RETURN(const std::string name, safe_relative_path(file.name));
  if (const std::string parent = parent_of(name); !parent.empty()) {
    SCR_RETURN_IF_ERROR(fs.make_directories(At(directory, parent)));
  }
  SCR_ASSIGN_OR_RETURN(auto target, fs.open(At(directory, name), OpenOptions::create_new()));
  SCR_RETURN_IF_ERROR(
      verify_file(fs, prefix, file, [&](std::span<const std::byte> data, std::uint64_t offset) {
        return target->write_all(data, offset);
      }));
  return target->close();
}

// Removes a directory and all that is in it; no link is followed.
void remove_tree(FileSystem& fs, const std::string& path) {
  const auto entries = fs.list(path);
  if (!entries.ok()) return;
  for (const DirectoryEntry& entry : *entries) {
    const std::string child = path + "/" + entry.name;
    if (entry.type == FileInfo::Type::kDirectory) {
      remove_tree(fs, child);
    } else {
      (void)fs.remove(child);
    }
  }
  (void)fs.remove_directory(path);
}

Status check_target(FileSystem& fs, const std::string& to) {
  const auto entries = fs.list(to);
  if (entries.ok() && entries->empty()) return fs.remove_directory(to);
  if (entries.status().code() == StatusCode::kNotFound) return {};
  return failed_precondition(
      fmt::format("cannot extract to '{}': it exists and is not an empty directory", to));
}

}  // namespace

Status check_all_ranks(const DatasetRow& row) {
  if (row.in_prefix) return {};
  const std::set<int> here(row.cached_ranks.begin(), row.cached_ranks.end());
  flush::RankRanges missing;
  for (int rank = 0; rank < row.dataset().ranks; ++rank) {
    if (!here.contains(rank)) missing.add(rank);
  }
  if (missing.empty()) return {};
  return failed_precondition(fmt::format(
      "the files of rank {} of dataset {} ('{}') are in no cache of this node; bring the dataset "
      "to the prefix directory first: scr_scavenge --id {}",
      missing.to_text(), row.dataset().id, text::escape(row.dataset().name), row.dataset().id));
}

Result<Extracted> extract_files(FileSystem& fs, const std::string& prefix,
                                const std::vector<DatasetFile>& files, const std::string& to,
                                const std::function<void(std::uint64_t files)>& progress) {
  SCR_RETURN_IF_ERROR(check_target(fs, to));
  const std::string temporary = temporary_beside(to).path;
  SCR_RETURN_IF_ERROR(fs.make_directories(temporary));
  Extracted extracted;
  Status status;
  {
    SCR_ASSIGN_OR_RETURN(const auto directory, fs.open_directory(temporary));
    for (const DatasetFile& file : files) {
      status = extract_file(fs, prefix, file, *directory);
      if (!status.ok()) break;
      ++extracted.files;
      extracted.bytes += file.size;
      if (progress) progress(extracted.files);
    }
  }
  if (status.ok()) status = fs.rename(temporary, to, /*exclusive=*/true);
  if (status.ok()) return extracted;
  remove_tree(fs, temporary);
  return status;
}

}  // namespace scr::tools
