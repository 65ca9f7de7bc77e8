#include "flush/confined_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr::flush {

namespace {

Status refused(const std::string& path, std::string_view why) {
  return {StatusCode::kPermissionDenied,
          fmt::format("'{}' is refused: {}", text::escape(path), why)};
}

Status not_for_copies(const At& at) { return refused(at.display(), "copies have no need of this"); }

// Absolute and normalised, and the way to it from `base`, which it must not be itself.
Result<std::string> way_below(const std::string& path, const std::string& base,
                              std::string_view what) {
  if (path.empty() || path.front() != '/' || !safe_relative_path(path.substr(1)).ok()) {
    return refused(path, "it is not an absolute path without '..'");
  }
  const auto way = relative_to(path, base);
  if (!way || *way == ".")
    return refused(path, fmt::format("it is not below the {} '{}'", what, base));
  return *way;
}

}  // namespace

Status check_private_directory(FileSystem& fs, const Directory& directory) {
  SCR_ASSIGN_OR_RETURN(const FileInfo info, fs.info(At(directory, ".")));
  if (info.uid != ::geteuid()) return refused(directory.path(), "it belongs to another user");
  if ((info.mode & 022U) != 0) return refused(directory.path(), "others can write to it");
  return {};
}

Result<std::unique_ptr<ConfinedFiles>> ConfinedFiles::open_job(FileSystem& fs,
                                                               const JobOwnerInfo& owner) {
  for (const std::string& name : {owner.user, owner.job_id}) {
    if (name.find('/') != std::string::npos || !safe_relative_path(name).ok()) {
      return refused(name, "it is no name of a user or job");
    }
  }
  SCR_ASSIGN_OR_RETURN(auto files, open_prefix(fs, owner.prefix));
  files->cache_part_ = fmt::format("/{}/scr.{}", owner.user, owner.job_id);
  return files;
}

Result<std::unique_ptr<ConfinedFiles>> ConfinedFiles::open_prefix(FileSystem& fs,
                                                                  const std::string& prefix) {
  if (prefix.empty() || prefix.front() != '/' || normalize(prefix, "/") != prefix)
    return refused(prefix, "it is no prefix directory");
  // The prefix is the user's choice and may well be a symbolic link.
  SCR_ASSIGN_OR_RETURN(auto directory, fs.open_directory(prefix, /*no_follow=*/false));
  return std::unique_ptr<ConfinedFiles>(new ConfinedFiles(fs, prefix, std::move(directory)));
}

Result<At> ConfinedFiles::source(const std::string& path) {
  if (cache_part_.empty()) return not_for_copies(At(path));
  const std::size_t found = path.find(cache_part_ + "/");
  if (found == std::string::npos)
    return refused(path, fmt::format("it is not below a '*{}'", cache_part_));
  const std::string base = path.substr(0, found + cache_part_.size());
  SCR_ASSIGN_OR_RETURN(std::string way, way_below(path, base, "cache directory"));
  std::unique_ptr<Directory>& cache = caches_[base];
  if (cache == nullptr) {
    SCR_ASSIGN_OR_RETURN(auto directory, fs_.open_directory(base));
    SCR_RETURN_IF_ERROR(check_private_directory(fs_, *directory));
    cache = std::move(directory);
  }
  return At(*cache, std::move(way));
}

Result<At> ConfinedFiles::destination(const std::string& path) {
  SCR_ASSIGN_OR_RETURN(std::string way, way_below(path, prefix_, "prefix directory"));
  return At(*prefix_directory_, std::move(way));
}

Result<std::unique_ptr<File>> ConfinedFiles::open(const At& at, const OpenOptions& options) {
  const bool reading = options.access == OpenOptions::Access::kRead;
  if (!reading && check_) SCR_RETURN_IF_ERROR(check_());
  SCR_ASSIGN_OR_RETURN(const At place, reading ? source(at.path) : destination(at.path));
  // Before the open, which would wait at a pipe.
  const auto found = fs_.info(place);
  if (found.ok() && found->type != FileInfo::Type::kRegular)
    return refused(at.path, "it is not a regular file");
  if (!found.ok() && found.status().code() != StatusCode::kNotFound) return found.status();
  return fs_.open(place, options);
}

Status ConfinedFiles::sync_directory(const At& at) {
  if (at.path == prefix_) return fs_.sync_directory(At(*prefix_directory_, "."));
  SCR_ASSIGN_OR_RETURN(const At place, destination(at.path));
  return fs_.sync_directory(place);
}

Result<std::unique_ptr<Directory>> ConfinedFiles::open_directory(const At& at, bool /*no_follow*/) {
  return not_for_copies(at);
}
Result<FileInfo> ConfinedFiles::info(const At& at, bool /*follow*/) { return not_for_copies(at); }
Status ConfinedFiles::make_directory(const At& at, mode_t /*mode*/) { return not_for_copies(at); }
Status ConfinedFiles::remove_directory(const At& at) { return not_for_copies(at); }
Status ConfinedFiles::remove(const At& at) { return not_for_copies(at); }
Status ConfinedFiles::rename(const At& from, const At& /*to*/, bool /*exclusive*/) {
  return not_for_copies(from);
}
Status ConfinedFiles::make_symlink(const std::string& /*target*/, const At& at) {
  return not_for_copies(at);
}
Result<std::string> ConfinedFiles::read_symlink(const At& at) { return not_for_copies(at); }
Result<std::vector<DirectoryEntry>> ConfinedFiles::list(const At& at) { return not_for_copies(at); }
Result<SpaceInfo> ConfinedFiles::space(const At& at) { return not_for_copies(at); }

}  // namespace scr::flush
