#include "core/base/filemap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_set>

#include "core/base/filemap_journal.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr {
namespace {

constexpr std::string_view kNameStart = "filemap_";
constexpr std::string_view kNameEnd = ".scrinfo";
constexpr std::size_t kLongestDirectory = 4095;

// A number that is a key: written as we write it, so that no two keys mean the same number.
Result<int> number_key(std::string_view key, int least, std::string_view what) {
  const auto number = text::parse_int(key);
  if (!number || *number < least || *number > std::numeric_limits<int>::max() ||
      std::to_string(*number) != key) {
    return corrupt(fmt::format("'{}' is not a {}", text::escape(key), what));
  }
  return static_cast<int>(*number);
}

Result<int> rank_key(std::string_view key) { return number_key(key, 0, "rank"); }
Result<int> dataset_key(std::string_view key) { return number_key(key, 1, "dataset id"); }

Result<const Hash*> require(const Hash& hash, std::string_view key) {
  if (const Hash* found = hash.get(key)) return found;
  return corrupt(fmt::format("key '{}' is missing", key));
}

Status check_directory(const std::string& directory) {
  if (directory.empty()) return {};  // a rank filemap
  if (directory.size() > kLongestDirectory) return corrupt("its directory has too long a path");
  if (directory != normalize(directory, "/")) {
    return corrupt(
        fmt::format("its directory '{}' is not an absolute path without '.', '..' and "
                    "'//'",
                    text::escape(directory)));
  }
  // An absolute path that is normalised is "/" and a safe relative path.
  const auto below = safe_relative_path(std::string_view(directory).substr(1));
  return below.ok() ? Status() : below.status();
}

Status check_files(const FilemapEntry& entry) {
  std::unordered_set<std::string_view> seen;
  for (const FileMeta& meta : entry.files) {
    if (const auto path = safe_relative_path(meta.file); !path.ok()) return path.status();
    if (!seen.insert(meta.file).second) {
      return corrupt(fmt::format("file '{}' is listed twice", text::escape(meta.file)));
    }
  }
  if (entry.expected_files < -1) {
    return corrupt(fmt::format("it expects {} files", entry.expected_files));
  }
  if (entry.expected_files >= 0 &&
      entry.files.size() > static_cast<std::size_t>(entry.expected_files)) {
    return corrupt(
        fmt::format("it lists {} files, but expects {}", entry.files.size(), entry.expected_files));
  }
  return {};
}

Status check_entry(int rank, int dataset, const FilemapEntry& entry) {
  if (entry.dataset.id != dataset) {
    return corrupt(fmt::format("its descriptor is that of dataset {}", entry.dataset.id));
  }
  // A descriptor that is not filled in yet has no number of ranks.
  if (entry.dataset.ranks < 0 || (entry.dataset.ranks > 0 && rank >= entry.dataset.ranks)) {
    return corrupt(fmt::format("its descriptor tells of {} ranks", entry.dataset.ranks));
  }
  SCR_RETURN_IF_ERROR(check_directory(entry.directory));
  return check_files(entry);
}

std::string entry_words(int rank, int dataset) {
  return fmt::format("rank {}, dataset {}", rank, dataset);
}

Hash entry_to_hash(const FilemapEntry& entry) {
  Hash hash;
  hash.set("DSETDESC", entry.dataset.to_hash());
  if (!entry.directory.empty()) hash.set_value("DIR", entry.directory);
  if (entry.expected_files >= 0) hash.set_value("FILES", entry.expected_files);
  Hash& files = hash.at("FILE");
  for (const FileMeta& meta : entry.files) files.at(meta.file).set("META", meta.to_hash());
  if (!entry.redundancy.empty()) hash.set("REDDESC", entry.redundancy);
  if (!entry.flush.empty()) hash.set("FLUSHDESC", entry.flush);
  return hash;
}

Result<FileMeta> file_from_hash(const std::string& name, const Hash& hash) {
  SCR_ASSIGN_OR_RETURN(const Hash* meta_hash, require(hash, "META"));
  SCR_ASSIGN_OR_RETURN(FileMeta meta, FileMeta::from_hash(*meta_hash));
  if (meta.file != name) {
    return corrupt(fmt::format("its meta data is that of '{}'", text::escape(meta.file)));
  }
  return meta;
}

Result<FilemapEntry> entry_from_hash(const Hash& hash) {
  FilemapEntry entry;
  SCR_ASSIGN_OR_RETURN(const Hash* descriptor, require(hash, "DSETDESC"));
  SCR_ASSIGN_OR_RETURN(entry.dataset, DatasetDescriptor::from_hash(*descriptor));
  if (hash.contains("DIR")) {
    SCR_ASSIGN_OR_RETURN(entry.directory, hash.require_value("DIR"));
    if (entry.directory.empty()) return corrupt("key 'DIR' has an empty value");
  }
  if (hash.contains("FILES")) {
    SCR_ASSIGN_OR_RETURN(const std::string count, hash.require_value("FILES"));
    SCR_ASSIGN_OR_RETURN(entry.expected_files, number_key(count, 0, "number of files"));
  }
  if (const Hash* files = hash.get("FILE")) {
    for (const Hash::Element& element : files->elements()) {
      auto meta = file_from_hash(element.key, element.hash);
      if (!meta.ok()) {
        return meta.status().with_context(fmt::format("file '{}'", text::escape(element.key)));
      }
      entry.files.push_back(*std::move(meta));
    }
  }
  if (const Hash* redundancy = hash.get("REDDESC")) entry.redundancy = *redundancy;
  if (const Hash* flush = hash.get("FLUSHDESC")) entry.flush = *flush;
  return entry;
}

Result<std::map<int, FilemapEntry>> datasets_from_hash(int rank, const Hash& hash) {
  std::map<int, FilemapEntry> datasets;
  SCR_ASSIGN_OR_RETURN(const Hash* all, require(hash, "DSET"));
  for (const Hash::Element& element : all->elements()) {
    SCR_ASSIGN_OR_RETURN(const int id, dataset_key(element.key));
    auto entry = entry_from_hash(element.hash);
    if (!entry.ok()) return entry.status().with_context(entry_words(rank, id));
    datasets.emplace(id, *std::move(entry));
  }
  if (datasets.empty()) return corrupt(fmt::format("rank {} has no datasets", rank));
  return datasets;
}

// Pairs of rank and dataset that the index at the top lists.
using Pairs = std::set<std::pair<int, int>>;

Result<Pairs> index_from_hash(const Hash& hash) {
  Pairs pairs;
  const Hash* datasets = hash.get("DSET");
  if (datasets == nullptr) return pairs;
  for (const Hash::Element& dataset : datasets->elements()) {
    SCR_ASSIGN_OR_RETURN(const int id, dataset_key(dataset.key));
    SCR_ASSIGN_OR_RETURN(const Hash* ranks, require(dataset.hash, "RANK"));
    if (ranks->empty()) return corrupt(fmt::format("its index has no ranks for dataset {}", id));
    for (const Hash::Element& element : ranks->elements()) {
      SCR_ASSIGN_OR_RETURN(const int rank, rank_key(element.key));
      pairs.emplace(rank, id);
    }
  }
  return pairs;
}

// The one that merge() keeps.
bool better(const FilemapEntry& theirs, const FilemapEntry& ours) {
  if (theirs.dataset.complete != ours.dataset.complete) return theirs.dataset.complete;
  return theirs.files.size() > ours.files.size();
}

}  // namespace

std::string filemap_name(std::uint64_t generation, int local_rank) {
  return fmt::format("{}{}_{}{}", kNameStart, generation, local_rank, kNameEnd);
}

bool is_filemap_name(std::string_view name) {
  if (!name.starts_with(kNameStart) || !name.ends_with(kNameEnd)) return false;
  if (name.size() <= kNameStart.size() + kNameEnd.size()) return false;
  name.remove_prefix(kNameStart.size());
  name.remove_suffix(kNameEnd.size());
  const auto numbers = text::split(name, '_');
  return numbers.size() <= 2 && std::all_of(numbers.begin(), numbers.end(), [](auto number) {
           return text::parse_uint(number).has_value();
         });
}

FileMeta* FilemapEntry::find(std::string_view file) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const FileMeta& meta) { return meta.file == file; });
  return found == files.end() ? nullptr : &*found;
}

const FileMeta* FilemapEntry::find(std::string_view file) const {
  return const_cast<FilemapEntry*>(this)->find(file);
}

void FilemapEntry::put(FileMeta meta) {
  if (FileMeta* existing = find(meta.file)) {
    *existing = std::move(meta);
  } else {
    files.push_back(std::move(meta));
  }
}

void FilemapEntry::remove(std::string_view file) {
  std::erase_if(files, [&](const FileMeta& meta) { return meta.file == file; });
}

const FilemapEntry* Filemap::get(int rank, int dataset) const {
  return const_cast<Filemap*>(this)->get(rank, dataset);
}

FilemapEntry* Filemap::get(int rank, int dataset) {
  const auto of_rank = entries_.find(rank);
  if (of_rank == entries_.end()) return nullptr;
  const auto found = of_rank->second.find(dataset);
  return found == of_rank->second.end() ? nullptr : &found->second;
}

FilemapEntry& Filemap::at(int rank, int dataset) {
  const auto [place, made] = entries_[rank].try_emplace(dataset);
  if (made) place->second.dataset.id = dataset;
  return place->second;
}

void Filemap::remove(int rank, int dataset) {
  const auto of_rank = entries_.find(rank);
  if (of_rank == entries_.end()) return;
  of_rank->second.erase(dataset);
  if (of_rank->second.empty()) entries_.erase(of_rank);
}

void Filemap::merge(const Filemap& other) {
  for (const auto& [rank, datasets] : other.entries_) {
    for (const auto& [id, entry] : datasets) {
      const auto [place, made] = entries_[rank].try_emplace(id, entry);
      if (!made && better(entry, place->second)) place->second = entry;
    }
  }
}

std::vector<int> Filemap::datasets() const {
  std::set<int> ids;
  for (const auto& [rank, of_rank] : entries_) {
    for (const auto& [id, entry] : of_rank) ids.insert(id);
  }
  return {ids.begin(), ids.end()};
}

std::vector<int> Filemap::ranks(int dataset) const {
  std::vector<int> found;
  for (const auto& [rank, of_rank] : entries_) {
    if (of_rank.contains(dataset)) found.push_back(rank);
  }
  return found;
}

std::vector<int> Filemap::ranks() const {
  std::vector<int> found;
  for (const auto& [rank, of_rank] : entries_) found.push_back(rank);
  return found;
}

Filemap Filemap::only_rank(int rank) const {
  Filemap only;
  if (const auto found = entries_.find(rank); found != entries_.end()) only.entries_.insert(*found);
  return only;
}

Status Filemap::check() const {
  for (const auto& [rank, datasets] : entries_) {
    for (const auto& [id, entry] : datasets) {
      if (rank < 0) return corrupt(fmt::format("{} is not a rank", rank));
      if (id < 1) return corrupt(fmt::format("{} is not a dataset id", id));
      const Status checked = check_entry(rank, id, entry);
      if (!checked.ok()) return checked.with_context(entry_words(rank, id));
    }
  }
  return {};
}

Hash Filemap::to_hash() const {
  Hash hash;
  for (const int id : datasets()) {
    Hash& index = hash.at("DSET").at(std::to_string(id));
    for (const int rank : ranks(id)) index.set_kv_int("RANK", rank);
  }
  for (const auto& [rank, of_rank] : entries_) {
    Hash& data = hash.at("RANK").at(std::to_string(rank)).at("DSET");
    for (const auto& [id, entry] : of_rank) data.set(std::to_string(id), entry_to_hash(entry));
  }
  return hash;
}

Result<Filemap> Filemap::from_hash(const Hash& hash) {
  Filemap filemap;
  if (const Hash* ranks = hash.get("RANK")) {
    for (const Hash::Element& element : ranks->elements()) {
      SCR_ASSIGN_OR_RETURN(const int rank, rank_key(element.key));
      auto datasets = datasets_from_hash(rank, element.hash);
      if (!datasets.ok()) return datasets.status();
      filemap.entries_.emplace(rank, *std::move(datasets));
    }
  }
  SCR_ASSIGN_OR_RETURN(const Pairs index, index_from_hash(hash));
  Pairs found;
  for (const auto& [rank, datasets] : filemap.entries_) {
    for (const auto& [id, entry] : datasets) found.emplace(rank, id);
  }
  if (index != found) return corrupt("its index does not agree with its entries");
  SCR_RETURN_IF_ERROR(filemap.check());
  return filemap;
}

Result<Filemap> read_filemap(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, at));
  auto filemap = Filemap::from_hash(hash);
  if (!filemap.ok()) {
    return filemap.status().with_context(fmt::format("'{}' is not a valid filemap", at.display()));
  }
  const auto journal = fs.read_file(journal_of(at));
  if (journal.ok()) {
    apply_journal(*journal, *filemap);
  } else if (journal.status().code() != StatusCode::kNotFound) {
    return journal.status();
  }
  return filemap;
}

Status write_filemap(FileSystem& fs, const At& at, const Filemap& filemap, Durability durability) {
  if (const Status checked = filemap.check(); !checked.ok()) {
    return internal_error(fmt::format("cannot write '{}': the filemap does not hold together: {}",
                                      at.display(), checked.message()));
  }
  const mode_t mode = durability == Durability::kVolatile ? 0600 : 0666;
  return write_hash_file(fs, at, filemap.to_hash(), durability, mode);
}

Result<std::vector<std::string>> master_filemap_from_hash(const Hash& hash) {
  SCR_ASSIGN_OR_RETURN(const Hash* list, require(hash, "Filemap"));
  std::vector<std::string> names;
  for (const Hash::Element& element : list->elements()) {
    SCR_ASSIGN_OR_RETURN(std::string name, safe_relative_path(element.key));
    names.push_back(std::move(name));
  }
  return names;
}

Result<std::vector<std::string>> read_master_filemap(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, at));
  auto names = master_filemap_from_hash(hash);
  if (names.ok()) return names;
  return names.status().with_context(
      fmt::format("'{}' is not a valid master filemap", at.display()));
}

Status write_master_filemap(FileSystem& fs, const At& at, const std::vector<std::string>& names) {
  Hash hash;
  Hash& list = hash.at("Filemap");
  for (const std::string& name : names) {
    SCR_ASSIGN_OR_RETURN(const std::string safe, safe_relative_path(name));
    list.at(safe);
  }
  return write_hash_file(fs, at, hash, Durability::kVolatile, 0600);
}

}  // namespace scr
