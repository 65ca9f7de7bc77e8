#include "core/job/node_check.hpp"

#include <fmt/format.h>

#include "core/base/byte_size.hpp"
#include "core/base/path.hpp"

namespace scr::job {
namespace {

Status check_directory(FileSystem& fs, const NeededDirectory& needed, SpaceTest test) {
  if (needed.make) SCR_RETURN_IF_ERROR(fs.make_directories(needed.path));
  // The base is the administrator's choice and may be a symbolic link.
  SCR_ASSIGN_OR_RETURN(auto directory, fs.open_directory(needed.path, /*no_follow=*/false));
  // Permission bits do not tell of read-only mounts and broken devices: a file does.
  const At probe = temporary_beside(At(*directory, "scr_check_node"));
  constexpr mode_t kPrivate = 0600;
  SCR_RETURN_IF_ERROR(fs.write_file_atomically(probe, std::as_bytes(std::span("probe")),
                                               /*durable=*/false, kPrivate));
  SCR_RETURN_IF_ERROR(fs.remove(probe));
  if (needed.bytes == 0) return {};
  SCR_ASSIGN_OR_RETURN(const SpaceInfo space, fs.space(At(*directory, ".")));
  const std::uint64_t there = test == SpaceTest::kFree ? space.available : space.capacity;
  if (there >= needed.bytes) return {};
  return failed_precondition(fmt::format("'{}' has {} of {} bytes that are needed {}", needed.path,
                                         there, needed.bytes,
                                         test == SpaceTest::kFree ? "free" : "in all"));
}

}  // namespace

Result<NeededDirectory> NeededDirectory::parse(std::string_view text) {
  NeededDirectory needed;
  const std::size_t colon = text.rfind(':');
  needed.path = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    SCR_ASSIGN_OR_RETURN(needed.bytes, parse_byte_size(text.substr(colon + 1)));
  }
  if (!needed.path.starts_with('/')) {
    return invalid_argument(fmt::format("'{}' is not the absolute path of a directory", text));
  }
  return needed;
}

std::string NeededDirectory::to_text() const {
  return bytes == 0 ? path : fmt::format("{}:{}", path, bytes);
}

std::vector<std::string> check_node(FileSystem& fs, const std::vector<NeededDirectory>& needed,
                                    SpaceTest test) {
  std::vector<std::string> problems;
  for (const NeededDirectory& directory : needed) {
    if (const Status status = check_directory(fs, directory, test); !status.ok()) {
      problems.emplace_back(status.message());
    }
  }
  return problems;
}

}  // namespace scr::job
