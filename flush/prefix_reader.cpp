#include "flush/prefix_reader.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/checksum.hpp"
#include "core/base/file_checksum.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "core/routing/marker.hpp"
#include "flush/contained_file.hpp"
#include "flush/index.hpp"
#include "flush/summary.hpp"

namespace scr::flush {
namespace {

// --- whom to trust

// Of an absolute path.
std::string directory_above(const std::string& path) {
  const std::string parent = parent_of(path);
  return parent.empty() ? "/" : parent;
}

// The owner of the file, of the nearest directory above it if there is no such file.
Result<uid_t> owner_of(FileSystem& fs, const std::string& path) {
  for (std::string at = path;; at = directory_above(at)) {
    const Result<FileInfo> found = fs.info(at, /*follow=*/at != path);
    if (found.ok()) return found->uid;
    if (found.status().code() != StatusCode::kNotFound || at == "/") return found.status();
  }
}

// What is wrong with a .scr directory; empty if it may be trusted.
std::string fault_of(const FileInfo& metadata, const FileInfo& prefix, uid_t file_owner) {
  if (metadata.type == FileInfo::Type::kSymlink) return "it is a symbolic link";
  if (metadata.type != FileInfo::Type::kDirectory) return "it is not a directory";
  if (metadata.uid != ::geteuid() && metadata.uid != file_owner) {
    return fmt::format(
        "it is owned by user {}, neither by us (user {}) nor by the owner of the "
        "file (user {})",
        metadata.uid, ::geteuid(), file_owner);
  }
  if ((metadata.mode & 02U) != 0) {
    return fmt::format("its mode {:04o} lets others write to it", metadata.mode);
  }
  // Who may write to the prefix directory could replace the files in it, or .scr, anyway.
  const bool group_has_prefix = (prefix.mode & 020U) != 0 && prefix.gid == metadata.gid;
  if ((metadata.mode & 020U) != 0 && !group_has_prefix) {
    return fmt::format(
        "its mode {:04o} lets its group write to it, which cannot write to the "
        "directory that it is in",
        metadata.mode);
  }
  return {};
}

// --- what is in a prefix directory

// The files of one dataset by name, read block by block as far as needed.
class Listing {
 public:
  Listing(std::string directory, const DatasetDescriptor& dataset)
      : directory_(std::move(directory)), dataset_(dataset) {}

  struct Place {
    int rank = 0;
    StoredFile file;
  };

  // Null if the dataset has no such file. The pointer is good until the next find() or forget().
  Result<const Place*> find(FileSystem& fs, const std::string& relative) {
    if (known_ && !std::binary_search(names_.begin(), names_.end(), hash_of(relative))) {
      return nullptr;
    }
    if (blocks_ < 0) SCR_RETURN_IF_ERROR(begin(fs));
    for (;;) {
      if (const auto found = places_.find(relative); found != places_.end()) return &found->second;
      if (loaded_ == blocks_) return nullptr;
      SCR_RETURN_IF_ERROR(load_block(fs));
    }
  }

  std::size_t remembered() const { return places_.size(); }
  // Frees all but a hash of each name, which still tells at once which files it has not got.
  void forget() {
    places_.clear();
    loaded_ = 0;
  }

 private:
  static std::size_t hash_of(const std::string& name) { return std::hash<std::string>()(name); }

  Status begin(FileSystem& fs) {
    SCR_ASSIGN_OR_RETURN(const Summary summary, read_summary(fs, directory_));
    if (summary.dataset.id != dataset_.id || summary.dataset.created != dataset_.created) {
      return corrupt(fmt::format("'{}/{}' is of another dataset than the index says", directory_,
                                 kSummaryName));
    }
    SCR_ASSIGN_OR_RETURN(const int ranks, read_rank_count(fs, directory_));
    blocks_ = rank2file_block_count(ranks);
    return {};
  }

  Status load_block(FileSystem& fs) {
    SCR_ASSIGN_OR_RETURN(auto ranks, read_rank2file_block(fs, directory_, loaded_));
    for (auto& [rank, files] : ranks) {
      for (StoredFile& file : files) {
        if (!file.fetch) continue;  // redundancy data is no file of the application
        std::string name = file.file;
        places_.try_emplace(std::move(name), Place{rank, std::move(file)});
      }
    }
    if (++loaded_ == blocks_ && !known_) remember_names();
    return {};
  }

  void remember_names() {
    names_.reserve(places_.size());
    for (const auto& [name, place] : places_) names_.push_back(hash_of(name));
    std::sort(names_.begin(), names_.end());
    known_ = true;
  }

  std::string directory_;
  DatasetDescriptor dataset_;
  int blocks_ = -1;
  int loaded_ = 0;
  std::unordered_map<std::string, Place> places_;  // of the blocks loaded
  std::vector<std::size_t> names_;                 // hashes of all names, sorted, if known_
  bool known_ = false;
};

// The datasets of one prefix directory, newest first.
class Catalog {
 public:
  Result<StoredLocation> locate(FileSystem& fs, const std::string& prefix,
                                const std::string& relative, std::optional<int> id) {
    SCR_RETURN_IF_ERROR(refresh(fs, prefix));
    Status damage;
    for (const bool usable : {true, false}) {
      if (!usable && !id) break;
      for (Entry& entry : entries_) {
        if (entry.usable() != usable || (id && entry.index.id() != *id)) continue;
        const auto place = look_into(fs, entry, relative);
        if (place.ok() && *place != nullptr) {
          return StoredLocation{entry.index.dataset, entry.index.directory, (*place)->rank,
                                (*place)->file};
        }
        if (place.ok()) continue;
        if (!is_damage(place.status())) return place.status();
        if (damage.ok()) damage = corrupt(std::string(place.status().message()));
      }
    }
    if (!damage.ok()) return damage;
    return not_found(fmt::format("no {} in '{}/.scr' has the file '{}'",
                                 id ? fmt::format("dataset {}", *id) : "complete dataset", prefix,
                                 text::escape(relative)));
  }

 private:
  struct Entry {
    IndexEntry index;
    std::unique_ptr<Listing> listing;
    std::uint64_t last_use = 0;
    bool warned = false;
    bool usable() const { return index.complete && index.failed.empty(); }
  };

  static bool is_damage(const Status& status) {
    return status.code() == StatusCode::kCorrupt || status.code() == StatusCode::kNotFound;
  }

  Result<const Listing::Place*> look_into(FileSystem& fs, Entry& entry,
                                          const std::string& relative) {
    entry.last_use = ++clock_;
    const std::size_t before = entry.listing->remembered();
    auto place = entry.listing->find(fs, relative);
    remembered_ += entry.listing->remembered() - before;
    make_room(entry);
    if (!place.ok() && is_damage(place.status()) && !std::exchange(entry.warned, true)) {
      log::warning("dataset {} is passed over: {}", entry.index.id(), place.status().message());
    }
    return place;
  }

  // A prefix directory may have more files than fit into memory: those used last stay.
  void make_room(const Entry& in_use) {
    constexpr std::size_t kMostRemembered = std::size_t{1} << 18U;
    while (remembered_ > kMostRemembered) {
      Entry* oldest = nullptr;
      for (Entry& entry : entries_) {
        if (&entry == &in_use || entry.listing->remembered() == 0) continue;
        if (oldest == nullptr || entry.last_use < oldest->last_use) oldest = &entry;
      }
      if (oldest == nullptr) return;
      remembered_ -= oldest->listing->remembered();
      oldest->listing->forget();
    }
  }

  // Reads the index if it is another file than last time. Listings of datasets that are still
  // there stay, since what is in the index does not change any more.
  Status refresh(FileSystem& fs, const std::string& prefix) {
    const std::string name = prefix + "/.scr/index.scr";
    const Result<FileInfo> found = fs.info(name, /*follow=*/true);
    if (!found.ok() && found.status().code() != StatusCode::kNotFound) return found.status();
    const std::string identity =
        found.ok()
            ? fmt::format("{} {} {} {}", found->device, found->inode, found->mtime_ns, found->size)
            : "none";
    if (identity == identity_) return {};
    SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
    std::map<std::string, Entry> before;
    for (Entry& entry : entries_) before[entry.index.directory] = std::move(entry);
    entries_.clear();
    remembered_ = 0;
    for (const IndexEntry& each : index.entries()) {
      Entry entry = std::move(before[each.directory]);
      const bool same = entry.listing && entry.index.dataset == each.dataset;
      if (!same) {
        entry.listing = std::make_unique<Listing>(prefix + "/.scr/" + each.directory, each.dataset);
      }
      entry.index = each;
      remembered_ += entry.listing->remembered();
      entries_.push_back(std::move(entry));
    }
    identity_ = identity;
    return {};
  }

  std::string identity_;  // of the index file that was read
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
  std::size_t remembered_ = 0;  // files in all listings
};

// --- what a process remembers

struct Memory {
  std::mutex catalogs_mutex;
  std::map<std::pair<const FileSystem*, std::string>, Catalog> catalogs;  // by prefix directory
  std::mutex verified_mutex;
  std::map<std::string, std::string> verified;  // path -> fingerprint of what was verified
};

Memory& memory() {
  // Never destroyed: files may be opened by destructors of statics at exit.
  static auto* const only = new Memory;
  return *only;
}

// Runs `verify` unless it went well before for the same path and fingerprint.
Status verify_once(const std::string& path, const std::string& fingerprint,
                   const std::function<Status()>& verify) {
  constexpr std::size_t kMostRemembered = 100'000;
  Memory& all = memory();
  {
    const std::lock_guard lock(all.verified_mutex);
    const auto found = all.verified.find(path);
    if (found != all.verified.end() && found->second == fingerprint) return {};
  }
  SCR_RETURN_IF_ERROR(verify());
  const std::lock_guard lock(all.verified_mutex);
  if (all.verified.size() >= kMostRemembered) all.verified.clear();
  all.verified[path] = fingerprint;
  return {};
}

// --- opening

Status verify_plain(File& file, const StoredFile& expected) {
  std::vector<std::byte> buffer(std::size_t{1} << 20U);
  SCR_ASSIGN_OR_RETURN(const std::uint32_t found, checksum_range(file, 0, expected.size, buffer));
  if (found == expected.crc) return {};
  return corrupt(
      fmt::format("'{}' has the checksum {} instead of {}: it is damaged, or was changed "
                  "since it was flushed",
                  file.path(), crc32_to_text(found), crc32_to_text(expected.crc)));
}

Result<std::unique_ptr<File>> open_plain(FileSystem& fs, const std::string& prefix,
                                         const StoredFile& stored, Verify verify) {
  const std::string path = prefix + "/" + stored.file;
  SCR_ASSIGN_OR_RETURN(const auto marker, routing::read_marker(fs, path));
  if (marker) {
    return not_found(fmt::format(
        "cannot open '{}': the index says that it was flushed, but only its marker is there",
        path));
  }
  OpenOptions options = OpenOptions::read();
  options.no_follow = false;  // the application's own path, which it may lead where it likes
  SCR_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs.open(path, options));
  if (verify == Verify::kNone) return file;
  SCR_ASSIGN_OR_RETURN(const FileInfo found, file->info());
  if (found.size != stored.size) {
    return corrupt(
        fmt::format("'{}' has {} bytes instead of {}: it is damaged, or was changed since "
                    "it was flushed",
                    path, found.size, stored.size));
  }
  const std::string fingerprint = fmt::format("{} {} {} {} {}", found.device, found.inode,
                                              found.mtime_ns, found.size, stored.crc);
  SCR_RETURN_IF_ERROR(verify_once(path, fingerprint, [&] { return verify_plain(*file, stored); }));
  return file;
}

Result<std::unique_ptr<File>> open_contained(FileSystem& fs, const std::string& prefix,
                                             const StoredLocation& location, Verify verify) {
  SCR_ASSIGN_OR_RETURN(auto file, ContainedFile::open(fs, prefix, location));
  if (verify == Verify::kWhole) {
    SCR_ASSIGN_OR_RETURN(const std::string fingerprint, file->fingerprint());
    const std::string key = fmt::format("{}\n{}", location.directory, file->path());
    SCR_RETURN_IF_ERROR(verify_once(key, fingerprint, [&] { return file->verify(); }));
  }
  return std::unique_ptr<File>(std::move(file));
}

}  // namespace

Result<std::string> find_prefix(FileSystem& fs, const std::string& absolute_path) {
  if (!absolute_path.starts_with('/') || normalize(absolute_path, "/") != absolute_path) {
    return invalid_argument(
        fmt::format("'{}' is not an absolute, normalised path", text::escape(absolute_path)));
  }
  Status refused;
  std::optional<uid_t> owner;
  std::string directory = absolute_path;
  do {
    directory = directory_above(directory);
    const std::string base = directory == "/" ? "" : directory;
    const Result<FileInfo> metadata = fs.info(base + "/.scr");
    // A directory that we may not search has nothing for us.
    if (!metadata.ok()) {
      if (metadata.status().is_transient()) return metadata.status();
      continue;
    }
    if (!owner) {
      SCR_ASSIGN_OR_RETURN(owner, owner_of(fs, absolute_path));
    }
    SCR_ASSIGN_OR_RETURN(const FileInfo prefix, fs.info(directory, /*follow=*/true));
    const std::string fault = fault_of(*metadata, prefix, *owner);
    if (fault.empty()) return directory;
    if (refused.ok()) {
      refused = {StatusCode::kPermissionDenied,
                 fmt::format("'{}/.scr' is not trusted: {}; set SCR_PREFIX to use it all the same",
                             base, fault)};
    }
  } while (directory != "/");
  if (!refused.ok()) return refused;
  return not_found(fmt::format("no directory above '{}' has a .scr", absolute_path));
}

Result<StoredLocation> locate(FileSystem& fs, const std::string& prefix,
                              const std::string& relative, std::optional<int> dataset_id) {
  if (const auto safe = safe_relative_path(relative); !safe.ok()) {
    return invalid_argument(std::string(safe.status().message()));
  }
  Memory& all = memory();
  const std::lock_guard lock(all.catalogs_mutex);
  return all.catalogs[{&fs, prefix}].locate(fs, prefix, relative, dataset_id);
}

Result<std::unique_ptr<File>> open_stored(FileSystem& fs, const std::string& prefix,
                                          const StoredLocation& location, Verify verify) {
  return location.file.contained() ? open_contained(fs, prefix, location, verify)
                                   : open_plain(fs, prefix, location.file, verify);
}

}  // namespace scr::flush
