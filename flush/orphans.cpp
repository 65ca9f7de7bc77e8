#include "flush/orphans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/path.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/flush.hpp"
#include "flush/intent.hpp"
#include "flush/made_directories.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

namespace {

// A summary that cannot be read now may be there all the same: that is an error, not a no.
Result<bool> is_committed(FileSystem& fs, const std::string& prefix,
                          const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(const auto names, dataset_directories(fs, prefix));
  for (const std::string& name : names) {
    if (!is_directory_of(name, dataset.id)) continue;
    const auto summary = read_summary(fs, prefix + "/.scr/" + name);
    if (summary.ok() && summary->dataset.created == dataset.created) return true;
    if (!summary.ok() && !commits_nothing(summary.status())) return summary.status();
  }
  return false;
}

Status remove_from(FileSystem& fs, const Directory& prefix, const std::string& directory,
                   const std::string& name_end) {
  if (directory != ".") SCR_RETURN_IF_ERROR(safe_relative_path(directory).status());
  const auto entries = fs.list(At(prefix, directory));
  if (entries.status().code() == StatusCode::kNotFound) return {};
  SCR_RETURN_IF_ERROR(entries.status());
  for (const DirectoryEntry& entry : *entries) {
    if (entry.type != FileInfo::Type::kRegular || !entry.name.starts_with('.') ||
        !entry.name.ends_with(name_end))
      continue;
    SCR_RETURN_IF_ERROR(fs.remove_if_exists(At(prefix, directory + "/" + entry.name)));
  }
  return {};
}

// What the names of temporary files of one dataset end with.
std::string name_end_of(const DatasetDescriptor& dataset) {
  return temporary_name("", dataset).substr(1);
}

// Endings of names that belong to somebody: of each dataset directory, whatever its state, but for
// those of `cut`. One whose files cannot be read may be anybody's, which is an error.
Result<std::set<std::string>> wanted_name_ends(FileSystem& fs, const std::string& prefix,
                                               std::span<const CutFlush> cut) {
  std::set<std::string> ends;
  SCR_ASSIGN_OR_RETURN(const auto names, dataset_directories(fs, prefix));
  for (const std::string& name : names) {
    if (std::ranges::find(cut, name, &CutFlush::directory) != cut.end()) continue;
    const std::string directory = prefix + "/.scr/" + name;
    const auto intent = read_intent(fs, directory);
    const auto summary = read_summary(fs, directory);
    if (intent.ok()) ends.insert(name_end_of(intent->dataset));
    if (summary.ok()) ends.insert(name_end_of(summary->dataset));
    if (intent.ok() || summary.ok()) continue;
    const bool nobodys = intent.status().code() == StatusCode::kNotFound &&
                         summary.status().code() == StatusCode::kNotFound;
    if (!nobodys) {
      return failed_precondition(fmt::format(
          "nobody knows whose '{}' is: {}", directory,
          (summary.status().code() == StatusCode::kNotFound ? intent.status() : summary.status())
              .message()));
    }
  }
  return ends;
}

}  // namespace

Result<std::vector<StrayFile>> find_strays(FileSystem& fs, const std::string& prefix,
                                           std::span<const CutFlush> cut) {
  SCR_ASSIGN_OR_RETURN(const auto wanted, wanted_name_ends(fs, prefix, cut));
  SCR_ASSIGN_OR_RETURN(const auto opened, fs.open_directory(prefix, /*no_follow=*/false));
  std::vector<StrayFile> strays;
  std::vector<std::string> left = {"."};
  for (const CutFlush& flush : cut) left.push_back(".scr/" + flush.directory);  // its containers
  while (!left.empty()) {
    const std::string directory = std::move(left.back());
    left.pop_back();
    const auto entries = fs.list(At(*opened, directory));
    if (entries.status().code() == StatusCode::kNotFound) continue;
    SCR_RETURN_IF_ERROR(entries.status());
    for (const DirectoryEntry& entry : *entries) {
      const std::string path = directory == "." ? entry.name : directory + "/" + entry.name;
      if (entry.type == FileInfo::Type::kDirectory && path != ".scr") left.push_back(path);
      if (entry.type != FileInfo::Type::kRegular) continue;
      const std::string end = temporary_ending(entry.name);
      if (end.empty() || wanted.contains(end)) continue;
      const auto info = fs.info(At(*opened, path));
      if (info.ok()) strays.push_back({path, info->size});
    }
  }
  return strays;
}

Status remove_strays(FileSystem& fs, const std::string& prefix,
                     const std::vector<StrayFile>& strays, std::vector<StrayFile>& removed) {
  SCR_ASSIGN_OR_RETURN(const auto opened, fs.open_directory(prefix, /*no_follow=*/false));
  std::set<std::string> directories;
  for (const StrayFile& stray : strays) {
    SCR_RETURN_IF_ERROR(fs.remove_if_exists(At(*opened, stray.file)));
    directories.insert(parent_of(stray.file));
    removed.push_back(stray);
  }
  return remove_made(fs, prefix, directories);
}

Status remove_orphans(FileSystem& fs, const std::string& prefix,
                      const std::set<std::string>& directories, const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(const bool committed, is_committed(fs, prefix, dataset));
  if (committed) return {};
  SCR_ASSIGN_OR_RETURN(const auto opened, fs.open_directory(prefix, /*no_follow=*/false));
  const std::string name_end = name_end_of(dataset);
  for (const std::string& directory : directories)
    SCR_RETURN_IF_ERROR(remove_from(fs, *opened, directory, name_end));
  return {};
}

}  // namespace scr::flush
