#include "core/runtime/cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/log.hpp"
#include "core/base/text.hpp"

namespace scr {

namespace {

constexpr const char* kMasterFilemap = "filemap.scrinfo";

// Filemap files are called filemap_<generation>_<rank on the node>.scrinfo.
std::uint64_t generation_of(const std::string& name) {
  const auto parts = text::split(name, '_');
  return parts.size() == 3 ? text::parse_uint(parts[1]).value_or(0) : 0;
}

}  // namespace

// A filemap that is damaged costs the ranks it lists, which redundancy covers; it must not cost the
// rest. One that cannot be read now may be readable later: it is kept, and remembered, for what
// redundancy cannot do without it is not lost.
Result<Filemap> Cache::read_node_filemaps(std::vector<std::string>& old_names,
                                          std::vector<std::string>& kept_names) {
  Filemap all;
  auto names = read_master_filemap(context_.fs(), At(context_.control(), kMasterFilemap));
  if (!names.ok()) {
    if (names.status().code() == StatusCode::kNotFound) return all;
    if (names.status().code() != StatusCode::kCorrupt) return names.status();
    log::warning("{}; the cache of this node counts as lost", names.status().message());
    return all;
  }
  for (const std::string& name : *names) {
    auto filemap = read_filemap(context_.fs(), At(context_.control(), name));
    const bool useless = !filemap.ok() && (filemap.status().code() == StatusCode::kCorrupt ||
                                           filemap.status().code() == StatusCode::kNotFound);
    (filemap.ok() || useless ? old_names : kept_names).push_back(name);
    if (filemap.ok()) {
      all.merge(*filemap);
    } else {
      log::warning("{}; the files it lists count as lost", filemap.status().message());
      if (!useless && unreadable_.ok()) unreadable_ = filemap.status();
    }
  }
  return all;
}

// Collective over the node: rank 0 of the node has the filemap, everyone gets a share.
Filemap Cache::deal_out(const Filemap& node_filemap) {
  Communicator& node = context_.node();
  const std::int32_t my_rank = context_.rank();
  auto ranks = node.gather(std::as_bytes(std::span(&my_rank, 1)), 0);
  Hash send;
  if (node.rank() == 0) {
    std::map<int, int> local;  // world rank -> rank on the node
    for (int i = 0; i < node.size(); ++i) {
      std::int32_t rank = 0;
      std::memcpy(&rank, ranks.data() + static_cast<std::size_t>(i) * sizeof rank, sizeof rank);
      local[rank] = i;
    }
    std::vector<Filemap> shares(static_cast<std::size_t>(node.size()));
    std::size_t next = 0;
    for (int rank : node_filemap.ranks()) {
      auto here = local.find(rank);
      const std::size_t share =
          here != local.end() ? static_cast<std::size_t>(here->second) : next++ % shares.size();
      shares[share].merge(node_filemap.only_rank(rank));
    }
    for (std::size_t i = 0; i < shares.size(); ++i)
      send.set(std::to_string(i), shares[i].to_hash());
  }
  Hash receive;
  Status status = exchange_hashes(node, send, receive);
  const Hash* share = receive.get("0");
  auto filemap = Filemap::from_hash(share ? *share : Hash());
  if (!status.ok() || !filemap.ok()) {
    log::error("cannot take over a filemap: {} {}", status.message(), filemap.status().message());
    return {};
  }
  return std::move(*filemap);
}

Status Cache::start() {
  Communicator& node = context_.node();
  std::vector<std::string> old_names;
  std::vector<std::string> kept_names;
  Filemap node_filemap;
  Status status;
  if (node.rank() == 0) {
    auto read = read_node_filemaps(old_names, kept_names);
    if (read.ok()) node_filemap = std::move(*read);
    status = read.status();
  }
  SCR_RETURN_IF_ERROR(agree(context_.world(), status, "reading the filemaps"));
  filemap_ = deal_out(node_filemap);

  std::uint64_t generation = 0;
  for (const auto* names : {&old_names, &kept_names}) {
    for (const std::string& name : *names) generation = std::max(generation, generation_of(name));
  }
  generation = node.all_reduce(generation, ReduceOp::kMax) + 1;
  name_ = fmt::format("filemap_{}_{}.scrinfo", generation, node.rank());
  SCR_RETURN_IF_ERROR(agree(context_.world(), save(), "writing the filemaps"));

  if (node.rank() == 0) {
    std::vector<std::string> names = kept_names;
    for (int i = 0; i < node.size(); ++i) {
      names.push_back(fmt::format("filemap_{}_{}.scrinfo", generation, i));
    }
    status = write_master_filemap(context_.fs(), At(context_.control(), kMasterFilemap), names);
  }
  SCR_RETURN_IF_ERROR(agree(context_.world(), status, "writing the master filemap"));
  for (const std::string& name : old_names) {
    const At at(context_.control(), name);
    for (const At& file : {at, journal_of(at)}) {
      status = context_.fs().remove_if_exists(file);
      if (!status.ok()) log::warning("{}", status.message());
    }
  }
  return {};
}

Status Cache::save() {
  added_to_ = {-1, -1};
  const At at(context_.control(), name_);
  SCR_RETURN_IF_ERROR(write_filemap(context_.fs(), at, filemap_));
  journal_.drop(context_.fs(), at);
  return {};
}

Status Cache::add_file(int rank, int dataset, FileMeta meta) {
  FilemapEntry& entry = filemap_.at(rank, dataset);
  if (added_to_ != std::pair(rank, dataset)) {
    added_names_.clear();
    for (const FileMeta& known : entry.files) added_names_.insert(known.file);
    added_to_ = {rank, dataset};
  }
  if (added_names_.contains(meta.file)) return {};
  const std::string name = meta.file;
  entry.files.push_back(std::move(meta));
  if (Status status = append(rank, dataset, entry.files.back()); !status.ok()) {
    entry.files.pop_back();
    return status;
  }
  added_names_.insert(name);
  return {};
}

// To the journal; a whole filemap takes its place when it fails or is long.
Status Cache::append(int rank, int dataset, const FileMeta& meta) {
  constexpr std::uint64_t kLongestJournal = std::uint64_t{64} << 20U;
  if (journal_.size() < kLongestJournal) {
    const At at(context_.control(), name_);
    if (journal_.append(context_.fs(), at, rank, dataset, meta).ok()) return {};
  }
  return save();
}

Status Cache::remove_dataset(int dataset) {
  Status first;
  for (int rank : filemap_.ranks(dataset)) {
    Status status = remove_entry(rank, dataset);
    if (!status.ok() && first.ok()) first = status;
  }
  return first;
}

namespace {

// Directories that held the files, deepest first, without the dataset directory itself.
std::vector<std::string> parents_of(const FilemapEntry& entry) {
  std::set<std::string, std::greater<>> parents;
  for (const FileMeta& meta : entry.files) {
    for (std::size_t slash = meta.file.rfind('/'); slash != std::string::npos;
         slash = slash == 0 ? std::string::npos : meta.file.rfind('/', slash - 1)) {
      parents.insert(meta.file.substr(0, slash));
    }
  }
  return {parents.begin(), parents.end()};
}

}  // namespace

Status Cache::remove_entry(int rank, int dataset) {
  const FilemapEntry* entry = filemap_.get(rank, dataset);
  if (entry == nullptr) return {};
  FileSystem& fs = context_.fs();
  // The directories of the prefix are the user's: they stay, and may well be symbolic links, by
  // which the program has written the files under their temporary names.
  if (entry->directory == context_.job().prefix) {
    for (const FileMeta& meta : entry->files) {
      SCR_RETURN_IF_ERROR(fs.remove_if_exists(entry->directory + "/" + meta.file));
    }
    return forget(rank, dataset);
  }
  auto directory = fs.open_directory(entry->directory);
  if (directory.ok()) {
    for (const FileMeta& meta : entry->files) {
      SCR_RETURN_IF_ERROR(fs.remove_if_exists(At(**directory, meta.file)));
    }
    // Other ranks may still have files there: a directory that is not empty stays.
    for (const std::string& parent : parents_of(*entry)) {
      (void)fs.remove_directory(At(**directory, parent));
    }
    (void)fs.remove_directory(entry->directory);
  } else if (directory.status().code() != StatusCode::kNotFound) {
    return directory.status();
  }
  return forget(rank, dataset);
}

Status Cache::forget(int rank, int dataset) {
  filemap_.remove(rank, dataset);
  return save();
}

Status check_cached_file(FileSystem& fs, const Directory& directory, const FileMeta& meta) {
  if (!meta.complete || !meta.crc) return corrupt("'" + meta.file + "' was never complete");
  const At at(directory, meta.file);
  SCR_ASSIGN_OR_RETURN(const FileInfo info, fs.info(at));
  if (info.type == FileInfo::Type::kRegular && info.size == meta.size) return {};
  return corrupt(fmt::format("'{}' has {} bytes, but {} are recorded for it", at.display(),
                             info.size, meta.size));
}

Status Cache::check_whole(int rank, int dataset) const {
  const FilemapEntry* entry = filemap_.get(rank, dataset);
  if (entry == nullptr || entry->expected_files != static_cast<int>(entry->files.size())) {
    return not_found("not all of its files are listed");
  }
  auto directory = context_.fs().open_directory(entry->directory);
  if (!directory.ok()) return entry->files.empty() ? Status() : directory.status();
  for (const FileMeta& meta : entry->files) {
    SCR_RETURN_IF_ERROR(check_cached_file(context_.fs(), **directory, meta));
  }
  return {};
}

Status Cache::unreadable_filemap() const {
  return agree(context_.world(), unreadable_, "reading a filemap", Report::kQuiet);
}

}  // namespace scr
