#include "core/base/access.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace scr {

namespace {

Status may(const std::string& path, int how, std::string_view tried, const std::string& file) {
  if (::faccessat(AT_FDCWD, path.c_str(), how, AT_EACCESS) == 0) return {};
  return errno_status(errno, tried, file);
}

constexpr mode_t kOwnerOnly = 0600;

// What is there now.
bool is_file(const Result<FileInfo>& info) {
  return info.ok() && info->type == FileInfo::Type::kRegular;
}

}  // namespace

Result<WriteAccess> check_write_access(FileSystem& fs, const std::string& path) {
  const std::string parent = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  const auto info = fs.info(path, /*follow=*/true);
  if (!info.ok() && info.status().code() != StatusCode::kNotFound) return info.status();
  if (info.ok()) {
    if (info->type == FileInfo::Type::kDirectory) return errno_status(EISDIR, "create", path);
    SCR_RETURN_IF_ERROR(may(path, W_OK, "open", path));
    return WriteAccess{.exists = true,
                       .replaceable = may(parent, W_OK | X_OK, "create", path).ok()};
  }
  SCR_ASSIGN_OR_RETURN(const FileInfo directory, fs.info(parent, /*follow=*/true));
  if (directory.type != FileInfo::Type::kDirectory) return errno_status(ENOTDIR, "create", path);
  SCR_RETURN_IF_ERROR(may(parent, W_OK | X_OK, "create", path));
  return WriteAccess{.exists = false, .replaceable = true};
}

mode_t mode_of_new_files(FileSystem& fs) {
  constexpr std::string_view kLine = "\nUmask:\t";
  const auto bytes = fs.read_file("/proc/self/status");
  unsigned mask = 077;  // if it is not known
  if (bytes.ok()) {
    const std::string_view all(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    const std::size_t start = all.find(kLine);
    if (start != std::string_view::npos) {
      const std::string_view digits = all.substr(start + kLine.size());
      std::from_chars(digits.data(), digits.data() + digits.size(), mask, 8);
    }
  }
  return static_cast<mode_t>(0666U & ~mask);
}

mode_t temporary_mode(FileSystem& fs, const std::string& path) {
  return is_file(fs.info(path, /*follow=*/true)) ? kOwnerOnly : OpenOptions().mode;
}

Status make_temporary(FileSystem& fs, const std::string& temporary, const std::string& path) {
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  options.mode = temporary_mode(fs, path);
  if (options.mode != kOwnerOnly) return {};
  SCR_ASSIGN_OR_RETURN(const auto file, fs.open(temporary, options));
  return file->close();
}

Status take_mode(FileSystem& fs, const std::string& temporary, const std::string& path) {
  const auto old = fs.info(path, /*follow=*/true);
  const bool is_new = old.status().code() == StatusCode::kNotFound;
  if (!is_new && !is_file(old)) return {};
  SCR_ASSIGN_OR_RETURN(const FileInfo mine, fs.info(temporary));
  if (is_new && (mine.mode & 0777U) != kOwnerOnly) return {};
  mode_t mode = is_new ? mode_of_new_files(fs) : old->mode & 0777U;
  if (!is_new && old->gid != mine.gid) mode &= 0707U | ((mode & 07U) << 3U);
  if ((mine.mode & 0777U) == mode) return {};
  SCR_ASSIGN_OR_RETURN(const auto file, fs.open(temporary, OpenOptions::read()));
  const Status set = file->set_mode(mode);
  // A file system without modes is no reason not to have the file.
  const bool wider = (mine.mode & ~mode) != 0;
  return wider ? set : Status();
}

}  // namespace scr
