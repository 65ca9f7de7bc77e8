#include "flush/orphans.hpp"

#include <fmt/format.h>

#include "core/base/path.hpp"
#include "flush/flush.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

namespace {

// A summary that cannot be read now may be there all the same: that is an error, not a no.
Result<bool> is_committed(FileSystem& fs, const std::string& prefix,
                          const DatasetDescriptor& dataset) {
  const std::string start = fmt::format("scr.dataset.{}", dataset.id);
  SCR_ASSIGN_OR_RETURN(const auto entries, fs.list(prefix + "/.scr"));
  for (const DirectoryEntry& entry : entries) {
    if (entry.type != FileInfo::Type::kDirectory || !entry.name.starts_with(start)) continue;
    const auto summary = read_summary(fs, prefix + "/.scr/" + entry.name);
    if (summary.ok() && summary->dataset.created == dataset.created) return true;
    const StatusCode code = summary.status().code();
    if (!summary.ok() && code != StatusCode::kNotFound && code != StatusCode::kCorrupt)
      return summary.status();
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

}  // namespace

Status remove_orphans(FileSystem& fs, const std::string& prefix,
                      const std::set<std::string>& directories, const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(const bool committed, is_committed(fs, prefix, dataset));
  if (committed) return {};
  SCR_ASSIGN_OR_RETURN(const auto opened, fs.open_directory(prefix, /*no_follow=*/false));
  const std::string name_end = temporary_name("", dataset).substr(1);
  for (const std::string& directory : directories)
    SCR_RETURN_IF_ERROR(remove_from(fs, *opened, directory, name_end));
  return {};
}

}  // namespace scr::flush
