#include "flush/supersede.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/routing/marker.hpp"
#include "flush/index.hpp"
#include "flush/intent.hpp"

namespace scr::flush {

namespace {

constexpr std::string_view kNew = "NEW";
constexpr std::string_view kOld = "OLD";

struct Candidate {
  Superseded dataset;
  int id = 0;
  int blocks = 0;  // of its rank2file
};

// The rank at which those who write a name and those who find it in a list meet.
std::string home_of(const std::string& name, int ranks) {
  return std::to_string(std::hash<std::string>{}(name) % static_cast<std::size_t>(ranks));
}

Result<std::vector<std::string>> replaced_names(FileSystem& fs, const std::string& prefix,
                                                const RankFiles& mine) {
  std::vector<std::string> names;
  for (const StoredFile& file : mine) {
    auto info = fs.info(prefix + "/" + file.file);
    if (info.ok() && info->type == FileInfo::Type::kRegular) {
      // A marker holds the place of this very file.
      SCR_ASSIGN_OR_RETURN(const auto marker, routing::read_marker(fs, prefix + "/" + file.file));
      if (!marker) names.push_back(file.file);
    }
    if (!info.ok() && info.status().code() != StatusCode::kNotFound) return info.status();
  }
  return names;
}

// Datasets of the index but this one's own copies. One whose list cannot be read cannot be fetched
// either.
Result<Hash> read_candidates(FileSystem& fs, const std::string& prefix,
                             const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(Index index, read_index(fs, prefix));
  Hash hash;
  for (const IndexEntry& entry : index.entries()) {
    if (entry.id() == dataset.id && entry.dataset.created == dataset.created) continue;
    auto ranks = read_rank_count(fs, prefix + "/.scr/" + entry.directory);
    if (ranks.status().is_transient()) return ranks.status();
    if (!ranks.ok()) continue;
    Hash& candidate = hash.at(entry.directory);
    candidate.set_value("CREATED", entry.dataset.created);
    candidate.set_value("ID", entry.id());
    candidate.set_value("BLOCKS", rank2file_block_count(*ranks));
  }
  return hash;
}

Result<std::vector<Candidate>> share_candidates(Communicator& world, FileSystem& fs,
                                                const std::string& prefix,
                                                const DatasetDescriptor& dataset) {
  Hash hash;
  Status status;
  if (world.rank() == 0) {
    auto read = read_candidates(fs, prefix, dataset);
    status = read.status();
    if (read.ok()) hash = std::move(*read);
  }
  SCR_RETURN_IF_ERROR(agree_all(world, status, "reading the index"));
  SCR_RETURN_IF_ERROR(broadcast_hash(world, hash, 0));
  std::vector<Candidate> candidates;
  for (const auto& element : hash.elements()) {
    Candidate candidate;
    candidate.dataset.directory = element.key;
    SCR_ASSIGN_OR_RETURN(candidate.dataset.created, element.hash.require_int("CREATED"));
    SCR_ASSIGN_OR_RETURN(std::int64_t id, element.hash.require_int("ID"));
    SCR_ASSIGN_OR_RETURN(std::int64_t blocks, element.hash.require_int("BLOCKS"));
    candidate.id = static_cast<int>(id);
    candidate.blocks = static_cast<int>(blocks);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// Each block of each candidate's list is read by one rank, which sends the names to their homes.
Status add_listed_names(Communicator& world, FileSystem& fs, const std::string& prefix,
                        const std::vector<Candidate>& candidates, Hash& send) {
  int turn = 0;
  for (const Candidate& candidate : candidates) {
    for (int block = 0; block < candidate.blocks; ++block) {
      if (turn++ % world.size() != world.rank()) continue;
      auto ranks = read_rank2file_block(fs, prefix + "/.scr/" + candidate.dataset.directory, block);
      if (ranks.status().is_transient()) return ranks.status();
      if (!ranks.ok()) continue;
      for (const auto& [rank, files] : *ranks) {
        for (const StoredFile& file : files) {
          if (file.contained()) continue;
          send.at(home_of(file.file, world.size()))
              .at(kOld)
              .at(file.file)
              .at(candidate.dataset.directory);
        }
      }
    }
  }
  return {};
}

// Directories of datasets that list a name which somebody writes; on rank 0 those of all ranks.
Result<Hash> meet(Communicator& world, const Hash& send) {
  Hash receive;
  SCR_RETURN_IF_ERROR(
      agree_all(world, exchange_hashes(world, send, receive), "looking for replaced files"));
  Hash all;
  for (const auto& element : receive.elements()) all.merge(element.hash);
  const Hash* written = all.get(kNew);
  const Hash* listed = all.get(kOld);
  Hash found;
  Hash& directories = found.at("0");
  if (written != nullptr && listed != nullptr) {
    for (const auto& name : listed->elements()) {
      if (written->contains(name.key)) directories.merge(name.hash);
    }
  }
  Hash gathered;
  SCR_RETURN_IF_ERROR(
      agree_all(world, exchange_hashes(world, found, gathered), "looking for replaced files"));
  Hash result;
  for (const auto& element : gathered.elements()) result.merge(element.hash);
  return result;
}

// The program has written the name anew, past the cache, since the file was copied.
Result<bool> has_newer(FileSystem& fs, const std::string& path, const std::string& copy) {
  auto there = fs.info(path);
  if (there.status().code() == StatusCode::kNotFound) return false;
  SCR_RETURN_IF_ERROR(there.status());
  SCR_ASSIGN_OR_RETURN(const FileInfo mine, fs.info(copy));
  if (there->type != FileInfo::Type::kRegular || there->mtime_ns <= mine.mtime_ns) return false;
  auto marker = routing::read_marker(fs, path);
  return marker.ok() && !*marker;
}

}  // namespace

Status put_in_place(FileSystem& fs, const std::string& temporary, const std::string& path,
                    bool keep_newer) {
  bool newer = false;
  if (keep_newer) {
    SCR_ASSIGN_OR_RETURN(newer, has_newer(fs, path, temporary));
  }
  if (!newer) return fs.rename(temporary, path);
  log::info("'{}' has been written anew since: the flushed copy is not put there", path);
  return fs.remove(temporary);
}

Result<std::vector<Superseded>> find_superseded(Communicator& world, FileSystem& fs,
                                                const std::string& prefix,
                                                const DatasetDescriptor& dataset,
                                                const RankFiles& mine) {
  auto names = replaced_names(fs, prefix, mine);
  SCR_RETURN_IF_ERROR(agree_all(world, names.status(), "looking for replaced files"));
  if (!world.any_true(!names->empty())) return std::vector<Superseded>();
  SCR_ASSIGN_OR_RETURN(auto candidates, share_candidates(world, fs, prefix, dataset));
  Hash send;
  for (const std::string& name : *names) send.at(home_of(name, world.size())).at(kNew).at(name);
  Status listed = add_listed_names(world, fs, prefix, candidates, send);
  SCR_RETURN_IF_ERROR(agree_all(world, listed, "looking for replaced files"));
  SCR_ASSIGN_OR_RETURN(Hash found, meet(world, send));
  std::vector<Superseded> superseded;
  Status status;
  for (const Candidate& candidate : candidates) {
    if (!found.contains(candidate.dataset.directory)) continue;
    if (candidate.id > dataset.id) {
      status = failed_precondition(
          fmt::format("dataset {} ('{}') would replace files of the newer dataset {}", dataset.id,
                      dataset.name, candidate.id));
    }
    superseded.push_back(candidate.dataset);
  }
  SCR_RETURN_IF_ERROR(agree_all(world, status, "replacing files in the prefix directory"));
  return superseded;
}

Status drop_from_index(FileSystem& fs, const std::string& prefix,
                       const std::vector<Superseded>& superseded) {
  if (superseded.empty()) return {};
  return update_index(fs, prefix, [&](Index& index) -> Status {
    for (const Superseded& old : superseded) {
      const IndexEntry* entry = index.find_directory(old.directory);
      if (entry == nullptr || entry->dataset.created != old.created) continue;
      index.remove(old.directory);
      if (index.current() != old.directory) continue;
      index.set_current("");
      const auto candidates = index.restart_candidates();
      if (!candidates.empty()) index.set_current(candidates.front()->directory);
    }
    return {};
  });
}

Status remove_directories_of(FileSystem& fs, const std::string& prefix,
                             const std::vector<Superseded>& superseded) {
  if (superseded.empty()) return {};
  SCR_ASSIGN_OR_RETURN(Index index, read_index(fs, prefix));
  for (const Superseded& old : superseded) {
    if (index.find_directory(old.directory) != nullptr) continue;
    Status status = remove_dataset_directory(fs, prefix, old.directory);
    if (status.is_transient()) return status;
    if (!status.ok()) log::warning("{}", status.message());  // somebody keeps files there
  }
  return {};
}

}  // namespace scr::flush
