#include "flush/index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <limits>
#include <set>
#include <tuple>

#include "core/base/hash_file.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr::flush {

namespace {

constexpr int kVersion = 2;
constexpr int kMaxCopies = 10000;  // of one dataset id
constexpr int kMaxRetries = 100;   // of an update that others overtook
constexpr std::size_t kMaxLeft = 1000;

std::string index_name(const std::string& prefix) { return prefix + "/.scr/index.scr"; }
std::string link_name(const std::string& prefix) {
  return prefix + "/" + std::string(kCurrentLinkName);
}
std::string link_target(const std::string& directory) { return ".scr/" + directory; }

void add_times(Hash& hash, std::string_view key, const std::vector<std::string>& times) {
  for (const std::string& time : times) hash.set_kv(key, time);
}

std::vector<std::string> get_times(const Hash& hash, std::string_view key) {
  std::vector<std::string> times;
  if (const Hash* list = hash.get(key)) {
    for (const auto& element : list->elements()) times.push_back(element.key);
  }
  return times;
}

Result<std::string> directory_name(const std::string& directory) {
  if (directory.find('/') != std::string::npos) {
    return corrupt("dataset directory '" + text::escape(directory) +
                   "' is not directly below .scr");
  }
  return safe_relative_path(directory);
}

// Newest first: by id, then by time; of two copies of one dataset the one that was made later.
bool newer(const IndexEntry& a, const IndexEntry& b) {
  auto key = [](const IndexEntry& entry) {
    return std::tuple(entry.dataset.id, entry.dataset.created, entry.directory.size(),
                      std::string_view(entry.directory));
  };
  return key(a) > key(b);
}

Result<IndexEntry> entry_from_hash(const std::string& directory, const Hash& hash) {
  IndexEntry entry;
  SCR_ASSIGN_OR_RETURN(entry.directory, directory_name(directory));
  const Hash* dataset = hash.get("DSETDESC");
  if (dataset == nullptr)
    return corrupt("entry '" + text::escape(directory) + "' has no dataset descriptor");
  SCR_ASSIGN_OR_RETURN(entry.dataset, DatasetDescriptor::from_hash(*dataset));
  entry.complete = hash.value("COMPLETE") == "1";
  entry.flushed = std::string(hash.value("FLUSHED").value_or(""));
  entry.fetched = get_times(hash, "FETCHED");
  entry.failed = get_times(hash, "FAILED");
  return entry;
}

}  // namespace

const IndexEntry* Index::find_directory(const std::string& directory) const {
  auto found = std::find_if(entries_.begin(), entries_.end(),
                            [&](const IndexEntry& entry) { return entry.directory == directory; });
  return found == entries_.end() ? nullptr : &*found;
}
IndexEntry* Index::find_directory(const std::string& directory) {
  return const_cast<IndexEntry*>(std::as_const(*this).find_directory(directory));
}
const IndexEntry* Index::find_name(const std::string& name) const {
  auto found = std::find_if(entries_.begin(), entries_.end(),
                            [&](const IndexEntry& entry) { return entry.dataset.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}
IndexEntry* Index::find_name(const std::string& name) {
  return const_cast<IndexEntry*>(std::as_const(*this).find_name(name));
}

void Index::put(IndexEntry entry) {
  erase(entry.directory);
  end_deletion(entry.directory);
  left_.erase({entry.dataset.created, entry.id()});
  entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), entry, newer),
                  std::move(entry));
}

void Index::erase(const std::string& directory) {
  std::erase_if(entries_, [&](const IndexEntry& entry) { return entry.directory == directory; });
}

void Index::remove(const std::string& directory) {
  if (const IndexEntry* entry = find_directory(directory); entry != nullptr && entry->complete) {
    left_.insert({entry->dataset.created, entry->id()});
    if (left_.size() > kMaxLeft) left_.erase(left_.begin());
  }
  erase(directory);
}

const IndexEntry* Index::find_dataset(const DatasetDescriptor& dataset) const {
  const auto found = std::ranges::find_if(entries_, [&](const IndexEntry& entry) {
    return entry.complete && entry.id() == dataset.id && entry.dataset.created == dataset.created;
  });
  return found == entries_.end() ? nullptr : &*found;
}

bool Index::has_left(const DatasetDescriptor& dataset) const {
  return left_.contains({dataset.created, dataset.id});
}

void Index::set_current(const std::string& directory) {
  if (directory != current_) chosen_ = 0;
  current_ = directory;
}

void Index::choose_current(const std::string& directory, std::int64_t when) {
  current_ = directory;
  chosen_ = when;
}

void Index::begin_deletion(const std::string& directory) {
  remove(directory);
  end_deletion(directory);
  deletions_.push_back(directory);
}

void Index::end_deletion(const std::string& directory) { std::erase(deletions_, directory); }

int Index::last_id() const { return entries_.empty() ? 0 : entries_.front().id(); }

std::vector<const IndexEntry*> Index::restart_candidates() const {
  const IndexEntry* current = current_.empty() ? nullptr : find_directory(current_);
  // A link that was moved by hand may lead anywhere.
  if (current != nullptr && !check_restartable(*current).ok()) current = nullptr;
  std::vector<const IndexEntry*> candidates;
  bool reached = current == nullptr;
  for (const IndexEntry& entry : entries_) {
    reached = reached || &entry == current;
    if (reached && entry.complete && entry.failed.empty() && entry.dataset.is_checkpoint()) {
      candidates.push_back(&entry);
    }
  }
  return candidates;
}

Hash Index::to_hash() const {
  Hash hash;
  hash.set_value("VERSION", kVersion);
  hash.set_value("GENERATION", generation_);
  if (!current_.empty()) hash.set_value("CURRENT", current_);
  if (chosen_ != 0) hash.set_value("CHOSEN", chosen_);
  for (const std::string& directory : deletions_) hash.at("DELETING").at(directory);
  for (const auto& [created, id] : left_)
    hash.at("LEFT").at(std::to_string(created)).at(std::to_string(id));
  for (const IndexEntry& entry : entries_) {
    hash.at("DIR").at(entry.directory).set_value("DSET", entry.id());
    Hash& place = hash.at("DSET").at(std::to_string(entry.id())).at("DIR").at(entry.directory);
    place.set("DSETDESC", entry.dataset.to_hash());
    place.set_value("COMPLETE", entry.complete ? 1 : 0);
    if (!entry.flushed.empty()) place.set_value("FLUSHED", entry.flushed);
    add_times(place, "FETCHED", entry.fetched);
    add_times(place, "FAILED", entry.failed);
  }
  return hash;
}

namespace {

// Datasets that are entries no more.
Result<std::set<std::pair<std::int64_t, int>>> left_from_hash(const Hash& hash) {
  std::set<std::pair<std::int64_t, int>> left;
  for (const auto& time : hash.elements()) {
    const auto created = text::parse_int(time.key);
    for (const auto& dataset : time.hash.elements()) {
      const auto id = text::parse_int(dataset.key);
      if (!created || !id || *id < 1 || *id > std::numeric_limits<int>::max())
        return corrupt("key 'LEFT' has what is no dataset");
      left.emplace(*created, static_cast<int>(*id));
    }
  }
  return left;
}

}  // namespace

Result<Index> Index::from_hash(const Hash& hash) {
  Index index;
  SCR_ASSIGN_OR_RETURN(std::int64_t version, hash.require_int("VERSION"));
  if (version != kVersion)
    return corrupt(fmt::format("index of version {}, this program knows {}", version, kVersion));
  SCR_ASSIGN_OR_RETURN(index.generation_, hash.require_uint("GENERATION"));
  if (hash.contains("CURRENT")) {
    SCR_ASSIGN_OR_RETURN(std::string current, hash.require_value("CURRENT"));
    SCR_ASSIGN_OR_RETURN(index.current_, directory_name(current));
  }
  if (hash.contains("CHOSEN")) {
    SCR_ASSIGN_OR_RETURN(index.chosen_, hash.require_int("CHOSEN"));
  }
  if (const Hash* left = hash.get("LEFT")) {
    SCR_ASSIGN_OR_RETURN(index.left_, left_from_hash(*left));
  }
  if (const Hash* deletions = hash.get("DELETING")) {
    for (const auto& element : deletions->elements()) {
      SCR_ASSIGN_OR_RETURN(std::string directory, directory_name(element.key));
      index.deletions_.push_back(std::move(directory));
    }
  }
  std::set<std::string> seen;
  const Hash* datasets = hash.get("DSET");
  if (datasets == nullptr) return index;
  for (const auto& dataset : datasets->elements()) {
    const Hash* directories = dataset.hash.get("DIR");
    if (directories == nullptr)
      return corrupt("dataset " + text::escape(dataset.key) + " has no directory");
    for (const auto& directory : directories->elements()) {
      auto entry = entry_from_hash(directory.key, directory.hash);
      if (!entry.ok()) return entry.status();
      if (std::to_string(entry->id()) != dataset.key) return corrupt("dataset under a wrong id");
      if (!seen.insert(entry->directory).second) {
        return corrupt("dataset directory '" + entry->directory + "' is listed twice");
      }
      index.entries_.push_back(std::move(*entry));
    }
  }
  std::sort(index.entries_.begin(), index.entries_.end(), newer);
  return index;
}

std::string timestamp_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

std::int64_t choice_time(const Index& index) {
  std::int64_t when = std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  for (const IndexEntry& entry : index.entries()) when = std::max(when, entry.dataset.created);
  return when;
}

Status check_restartable(const IndexEntry& entry) {
  if (entry.complete && entry.dataset.is_checkpoint()) return {};
  return failed_precondition(fmt::format(
      "dataset {} ('{}') {}, so no restart can begin with it: it does not become current",
      entry.id(), text::escape(entry.dataset.name),
      entry.complete ? "is no checkpoint" : "is not complete"));
}

namespace {

// As a user may have written it: with slashes at the end, "./", or from the root.
std::string directory_of_link(const std::string& prefix, std::string_view target) {
  while (target.ends_with('/')) target.remove_suffix(1);
  while (target.starts_with("./")) target.remove_prefix(2);
  if (target.starts_with(prefix + "/")) target.remove_prefix(prefix.size() + 1);
  return target.starts_with(".scr/") ? std::string(target.substr(5)) : std::string();
}

// What a user can do about an index that is damaged.
Status with_advice(const Status& status) {
  if (status.code() != StatusCode::kCorrupt) return status;
  return corrupt(std::string(status.message()) +
                 "; 'scr_index --build' sets it aside and makes a new one from the datasets' "
                 "summaries");
}

Result<Index> parse_index(FileSystem& fs, const std::string& prefix, const Hash& hash) {
  if (hash.empty()) return Index();
  auto index = Index::from_hash(hash);
  if (!index.ok()) return with_advice(index.status().with_context("'" + index_name(prefix) + "'"));
  // A user may have moved the link to another dataset: then he means it.
  const std::string linked = linked_dataset(fs, prefix);
  if (linked != index->current() && index->find_directory(linked) != nullptr) {
    log::info("scr.current was moved by hand: '{}' is current now", linked);
    const auto moved = fs.info(link_name(prefix));
    index->choose_current(linked, moved.ok() ? moved->mtime_ns / 1000 : 0);
  }
  return index;
}

// Replaces the link atomically; without a current dataset it goes. What is no link of ours stays.
Status write_link(FileSystem& fs, const std::string& prefix, const Index& index) {
  const std::string name = link_name(prefix);
  auto target = fs.read_symlink(name);
  if (!target.ok() && target.status().code() != StatusCode::kNotFound) {
    if (target.status().errno_value() != EINVAL) return target.status();
    log::warning("'{}' is no symbolic link: it is left as it is", name);
    return {};
  }
  if (index.current().empty()) {
    if (!target.ok()) return {};
    SCR_RETURN_IF_ERROR(fs.remove_if_exists(name));
    return fs.sync_directory(prefix);
  }
  if (target.ok() && *target == link_target(index.current())) return {};
  const std::string temporary = prefix + "/.scr/.current.tmp";
  SCR_RETURN_IF_ERROR(fs.remove_if_exists(temporary));
  Status status = fs.make_symlink(link_target(index.current()), temporary);
  // Some file systems have no symbolic links: without one, the index alone says what is current.
  if (!target.ok() && (status.errno_value() == EPERM || status.errno_value() == EOPNOTSUPP))
    return {};
  if (status.ok()) status = fs.rename(temporary, name);
  if (!status.ok()) {
    (void)fs.remove_if_exists(temporary);
    return status;
  }
  return fs.sync_directory(prefix);
}

Result<Hash> read_index_hash(FileSystem& fs, const std::string& prefix) {
  auto hash = read_hash_file(fs, index_name(prefix));
  if (hash.ok()) return hash;
  if (hash.status().code() == StatusCode::kNotFound) return Hash();
  return with_advice(hash.status());
}

Result<std::uint64_t> read_generation(FileSystem& fs, const std::string& prefix) {
  SCR_ASSIGN_OR_RETURN(Hash hash, read_index_hash(fs, prefix));
  if (hash.empty()) return std::uint64_t{0};
  return hash.require_uint("GENERATION");
}

}  // namespace

Result<Index> read_index(FileSystem& fs, const std::string& prefix) {
  SCR_ASSIGN_OR_RETURN(Hash hash, read_index_hash(fs, prefix));
  return parse_index(fs, prefix, hash);
}

Status update_index(FileSystem& fs, const std::string& prefix,
                    const std::function<Status(Index&)>& change) {
  for (int attempt = 0; attempt < kMaxRetries; ++attempt) {
    auto locked = LockedHashFile::open(fs, index_name(prefix), LockMode::kExclusive);
    if (!locked.ok()) return with_advice(locked.status());
    SCR_ASSIGN_OR_RETURN(Index index, parse_index(fs, prefix, locked->hash()));
    const std::uint64_t before = index.generation();
    SCR_RETURN_IF_ERROR(change(index));
    // Where locks do nothing, somebody may have written meanwhile: look once more, and start over.
    SCR_ASSIGN_OR_RETURN(std::uint64_t now, read_generation(fs, prefix));
    if (now != before) continue;
    index.next_generation();
    // The link first, and durably: cut in between, it names what was about to be current, or what
    // is not in the index yet and so does not count. The other way round an old link would pass for
    // one moved by hand.
    SCR_RETURN_IF_ERROR(write_link(fs, prefix, index));
    locked->hash() = index.to_hash();
    return locked->write(Durability::kDurable);
  }
  return {StatusCode::kUnavailable,
          "cannot update '" + index_name(prefix) + "': others keep changing it"};
}

std::string linked_dataset(FileSystem& fs, const std::string& prefix) {
  const auto target = fs.read_symlink(link_name(prefix));
  return target.ok() ? directory_of_link(prefix, *target) : std::string();
}

bool made_current_since(FileSystem& fs, const std::string& prefix, const Index& index,
                        std::int64_t since) {
  if (index.current().empty()) return false;
  const auto newest =
      std::find_if(index.entries().begin(), index.entries().end(), [](const IndexEntry& entry) {
        return entry.complete && entry.failed.empty() && entry.dataset.is_checkpoint();
      });
  const IndexEntry* current = index.find_directory(index.current());
  if (current == nullptr || !check_restartable(*current).ok()) return false;
  // What is newer than the newest of the index may have been in the cache alone.
  if (index.chosen() != 0) return index.chosen() >= since;
  if (newest == index.entries().end() || newest->directory == index.current()) return false;
  const auto link = fs.info(link_name(prefix));
  return link.ok() && link->mtime_ns / 1000 >= since;
}

Result<std::string> set_damaged_index_aside(FileSystem& fs, const std::string& prefix) {
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  SCR_ASSIGN_OR_RETURN(auto lock, fs.open(index_name(prefix) + ".lock", options));
  const Status locked = lock->lock(LockMode::kExclusive, /*wait=*/true);
  if (!locked.ok() && !locks_are_missing(locked)) return locked;
  const auto index = read_index(fs, prefix);
  if (index.ok()) return std::string();
  if (index.status().code() != StatusCode::kCorrupt) return index.status();
  for (int n = 1; n <= kMaxCopies; ++n) {
    const std::string aside = fmt::format("{}.corrupt.{}", index_name(prefix), n);
    const Status renamed = fs.rename(index_name(prefix), aside, /*exclusive=*/true);
    if (renamed.errno_value() == EEXIST) continue;
    SCR_RETURN_IF_ERROR(renamed);
    SCR_RETURN_IF_ERROR(fs.sync_directory(prefix + "/.scr"));
    return aside;
  }
  return internal_error(
      fmt::format("'{}' has been set aside {} times already", index_name(prefix), kMaxCopies));
}

Result<std::string> make_dataset_directory(FileSystem& fs, const std::string& prefix, int id) {
  for (int copy = 0; copy < kMaxCopies; ++copy) {
    const std::string name =
        copy == 0 ? fmt::format("scr.dataset.{}", id) : fmt::format("scr.dataset.{}.{}", id, copy);
    Status status = fs.make_directory(prefix + "/.scr/" + name);
    if (status.ok()) return name;
    if (status.errno_value() != EEXIST) return status;
  }
  return internal_error(
      fmt::format("dataset {} has {} copies in '{}' already", id, kMaxCopies, prefix));
}

}  // namespace scr::flush
