#include "flush/staged_files.hpp"

#include <fmt/format.h>

#include "core/base/text.hpp"
#include "flush/segmented_file.hpp"

namespace scr::flush {

namespace {

Status not_for_rebuilds(const At& at) {
  return {StatusCode::kPermissionDenied,
          fmt::format("'{}' is refused: a rebuild has no need of this", text::escape(at.path))};
}

}  // namespace

void StagedFiles::add_plain(const std::string& name, std::string path_in_prefix) {
  places_[name] = std::make_shared<Place>(Place{&prefix_, std::move(path_in_prefix), {}});
}

void StagedFiles::add_own(const std::string& name, std::string path_in_directory) {
  places_[name] = std::make_shared<Place>(Place{&directory_, std::move(path_in_directory), {}});
}

void StagedFiles::add_contained(const std::string& name, std::vector<Segment> segments) {
  places_[name] = std::make_shared<Place>(Place{&directory_, "", std::move(segments)});
}

void StagedFiles::add_alias(const std::string& name, const std::string& other) {
  places_[name] = places_.at(other);
}

Result<std::unique_ptr<File>> StagedFiles::open(const At& at, const OpenOptions& options) {
  const auto found = places_.find(at.path);
  if (found == places_.end())
    return not_found(fmt::format("'{}' is not there", text::escape(at.path)));
  const Place& place = *found->second;
  if (!place.path.empty()) return fs_.open(At(*place.directory, place.path), options);
  const bool writable = options.access != OpenOptions::Access::kRead;
  SCR_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                       SegmentedFile::open(fs_, directory_, at.path, place.segments, writable));
  return file;
}

Status StagedFiles::rename(const At& /*from*/, const At& /*to*/, bool /*exclusive*/) { return {}; }
Status StagedFiles::remove(const At& /*at*/) { return {}; }
Status StagedFiles::make_directory(const At& /*at*/, mode_t /*mode*/) { return {}; }

Result<std::unique_ptr<Directory>> StagedFiles::open_directory(const At& at, bool /*no_follow*/) {
  return not_for_rebuilds(at);
}
Result<FileInfo> StagedFiles::info(const At& at, bool /*follow*/) { return not_for_rebuilds(at); }
Status StagedFiles::remove_directory(const At& at) { return not_for_rebuilds(at); }
Status StagedFiles::make_symlink(const std::string& /*target*/, const At& at) {
  return not_for_rebuilds(at);
}
Result<std::string> StagedFiles::read_symlink(const At& at) { return not_for_rebuilds(at); }
Result<std::vector<DirectoryEntry>> StagedFiles::list(const At& at) { return not_for_rebuilds(at); }
Status StagedFiles::sync_directory(const At& at) { return not_for_rebuilds(at); }
Result<SpaceInfo> StagedFiles::space(const At& at) { return not_for_rebuilds(at); }

}  // namespace scr::flush
