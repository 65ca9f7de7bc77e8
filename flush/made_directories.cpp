#include "flush/made_directories.hpp"

#include <algorithm>
#include <cerrno>

#include "core/base/hash_file.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"

namespace scr::flush {

namespace {

constexpr std::string_view kMadeKey = "MADE";
constexpr std::string_view kInodeKey = "INODE";

std::string list_name(const std::string& prefix) { return prefix + "/.scr/made.scr"; }

// One that is damaged tells nothing: what it listed stays.
Result<LockedHashFile> open_list(FileSystem& fs, const std::string& prefix) {
  auto list = LockedHashFile::open(fs, list_name(prefix), LockMode::kExclusive);
  if (list.status().code() != StatusCode::kCorrupt) return list;
  log::warning("{}; it is made anew, and directories that it listed stay when they are empty",
               list.status().message());
  SCR_RETURN_IF_ERROR(fs.remove_if_exists(list_name(prefix)));
  return LockedHashFile::open(fs, list_name(prefix), LockMode::kExclusive);
}

// These and all above them, the deepest first.
std::vector<std::string> with_those_above(const std::set<std::string>& directories) {
  std::set<std::string> names;
  for (std::string name : directories) {
    for (; !name.empty(); name = parent_of(name)) {
      if (!names.insert(name).second) break;
    }
  }
  std::vector<std::string> result(names.begin(), names.end());
  std::ranges::stable_sort(result, std::greater<>(),
                           [](const auto& name) { return std::ranges::count(name, '/'); });
  return result;
}

// Whether the directory is gone. One that somebody has put there instead is his.
Result<bool> remove_if_ours(FileSystem& fs, const At& at, std::uint64_t inode) {
  const auto found = fs.info(at);
  const int why = found.status().errno_value();
  if (found.status().code() == StatusCode::kNotFound || why == ELOOP || why == ENOTDIR) return true;
  SCR_RETURN_IF_ERROR(found.status());
  if (found->type != FileInfo::Type::kDirectory || inode != found->inode) return true;
  const Status removed = fs.remove_directory(at);
  if (removed.ok() || removed.code() == StatusCode::kNotFound) return true;
  if (removed.errno_value() == ENOTEMPTY || removed.errno_value() == EEXIST) return false;
  return removed;
}

}  // namespace

Hash MadeDirectories::to_hash() const {
  Hash hash;
  Hash& made = hash.at(kMadeKey);
  for (const auto& [name, inode] : inodes) made.at(name).set_value(kInodeKey, inode);
  return hash;
}

MadeDirectories MadeDirectories::from_hash(const Hash& hash) {
  MadeDirectories list;
  const Hash* made = hash.get(kMadeKey);
  if (made == nullptr) return list;
  for (const Hash::Element& element : made->elements()) {
    const auto name = safe_relative_path(element.key);
    const auto inode = element.hash.require_uint(kInodeKey);
    if (name.ok() && *name == element.key && inode.ok()) list.inodes[*name] = *inode;
  }
  return list;
}

Status make_missing(FileSystem& fs, const std::string& prefix, const Directory* opened,
                    const std::string& name, std::vector<std::string>& made) {
  const At at = opened != nullptr ? At(*opened, name) : At(prefix + "/" + name);
  Status status = fs.make_directory(at, 0777);
  if (status.errno_value() == ENOENT && !parent_of(name).empty()) {
    SCR_RETURN_IF_ERROR(make_missing(fs, prefix, opened, parent_of(name), made));
    status = fs.make_directory(at, 0777);
  }
  if (status.ok()) made.push_back(name);
  return status.errno_value() == EEXIST ? fs.make_directories(at) : status;
}

Status note_made(FileSystem& fs, const std::string& prefix, const std::vector<std::string>& made) {
  if (made.empty()) return {};
  SCR_ASSIGN_OR_RETURN(LockedHashFile file, open_list(fs, prefix));
  auto list = MadeDirectories::from_hash(file.hash());
  for (const std::string& name : made) {
    const auto info = fs.info(prefix + "/" + name);
    if (info.status().code() == StatusCode::kNotFound) continue;
    SCR_RETURN_IF_ERROR(info.status());
    list.inodes[name] = info->inode;
  }
  file.hash() = list.to_hash();
  return file.write(Durability::kVolatile);
}

Status remove_made(FileSystem& fs, const std::string& prefix,
                   const std::set<std::string>& directories) {
  const std::vector<std::string> names = with_those_above(directories);
  if (names.empty()) return {};
  SCR_ASSIGN_OR_RETURN(const bool any, fs.exists(list_name(prefix)));
  if (!any) return {};
  SCR_ASSIGN_OR_RETURN(const auto base, fs.open_directory(prefix, /*no_follow=*/false));
  SCR_ASSIGN_OR_RETURN(LockedHashFile file, open_list(fs, prefix));
  auto list = MadeDirectories::from_hash(file.hash());
  bool changed = false;
  for (const std::string& name : names) {
    const auto noted = list.inodes.find(name);
    if (noted == list.inodes.end()) continue;
    SCR_ASSIGN_OR_RETURN(const bool gone, remove_if_ours(fs, At(*base, name), noted->second));
    if (gone) list.inodes.erase(noted);
    changed = changed || gone;
  }
  if (!changed) return {};
  if (list.inodes.empty()) return fs.remove_if_exists(list_name(prefix));
  file.hash() = list.to_hash();
  return file.write(Durability::kVolatile);
}

}  // namespace scr::flush
