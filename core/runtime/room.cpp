#include "core/runtime/room.hpp"

#include <algorithm>

#include "core/base/text.hpp"

namespace scr {

namespace {

std::optional<std::string> read_text(FileSystem& fs, const std::string& path) {
  auto bytes = fs.read_file(path);
  if (!bytes.ok()) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

std::optional<std::uint64_t> read_number(FileSystem& fs, const std::string& path) {
  auto text = read_text(fs, path);
  return text ? text::parse_uint(text::trim(*text)) : std::nullopt;  // "max" is no number: no limit
}

// Path of the process's group in the unified hierarchy: the line "0::/path".
std::optional<std::string> group_path(FileSystem& fs, const std::string& self) {
  auto text = read_text(fs, self);
  if (!text) return std::nullopt;
  for (std::string_view line : text::split(*text, '\n')) {
    if (line.starts_with("0::")) return std::string(line.substr(3));
  }
  return std::nullopt;
}

// What the kernel takes back from a group when it needs memory: pages of files on disks. Those of
// files in memory are not among them.
std::uint64_t reclaimable(FileSystem& fs, const std::string& group) {
  const std::string text = read_text(fs, group + "/memory.stat").value_or("");
  std::uint64_t sum = 0;
  for (std::string_view line : text::split(text, '\n')) {
    for (const std::string_view key : {"inactive_file ", "active_file "}) {
      if (line.starts_with(key)) sum += text::parse_uint(line.substr(key.size())).value_or(0);
    }
  }
  return sum;
}

}  // namespace

std::optional<std::uint64_t> memory_left(FileSystem& fs, const std::string& root,
                                         const std::string& self) {
  auto path = group_path(fs, self);
  if (!path) return std::nullopt;
  std::optional<std::uint64_t> left;
  // A limit of any group above counts too.
  for (std::string group = *path;; group.resize(group.rfind('/'))) {
    const auto limit = read_number(fs, root + group + "/memory.max");
    const auto used = read_number(fs, root + group + "/memory.current");
    if (limit && used) {
      const std::uint64_t kept = *used - std::min(*used, reclaimable(fs, root + group));
      const std::uint64_t here = *limit > kept ? *limit - kept : 0;
      left = left ? std::min(*left, here) : here;
    }
    if (group.rfind('/') == std::string::npos) break;
  }
  return left;
}

Result<std::uint64_t> available_bytes(FileSystem& fs, const Directory& directory,
                                      std::uint64_t capacity, std::uint64_t used) {
  SCR_ASSIGN_OR_RETURN(SpaceInfo space, fs.space(At(directory, ".")));
  std::uint64_t available = space.available;
  if (capacity > 0) available = std::min(available, capacity > used ? capacity - used : 0);
  if (space.in_memory) {
    if (auto left = memory_left(fs)) available = std::min(available, *left);
  }
  return available;
}

}  // namespace scr
