#include "flush/supersede.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/base/access.hpp"
#include "core/base/log.hpp"
#include "core/routing/deletions.hpp"
#include "core/routing/marker.hpp"
#include "core/routing/marker_store.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/intent.hpp"
#include "flush/roll_forward.hpp"

namespace scr::flush {

namespace {

constexpr std::string_view kNew = "NEW";
constexpr std::string_view kOld = "OLD";

struct Candidate {
  Superseded dataset;
  int id = 0;
  int blocks = 0;        // of its rank2file
  bool unended = false;  // committed, but not in the index
};

// The rank at which those who write a name and those who find it in a list meet.
std::string home_of(const std::string& name, int ranks) {
  return std::to_string(std::hash<std::string>{}(name) % static_cast<std::size_t>(ranks));
}

// The program has written the name anew, past the cache, since the file was copied, or has deleted
// or replaced the file.
Result<bool> is_unwanted(FileSystem& fs, const std::string& base, const std::string& file,
                         const DatasetDescriptor& dataset) {
  const std::string path = base + "/" + file;
  auto there = fs.info(path);
  const bool is_free = there.status().code() == StatusCode::kNotFound;
  if (!there.ok() && !is_free) return there.status();
  auto mine = fs.info(base + "/" + temporary_name(file, dataset));
  // It is gone, perhaps with its directory.
  if (mine.status().code() == StatusCode::kNotFound) return false;
  SCR_RETURN_IF_ERROR(mine.status());
  SCR_ASSIGN_OR_RETURN(const bool deleted,
                       routing::is_deleted(fs, base, file, dataset, mine->mtime_ns));
  if (deleted || is_free) return deleted;
  if (there->type != FileInfo::Type::kRegular || there->mtime_ns <= mine->mtime_ns) return false;
  auto marker = routing::read_marker(fs, path);
  return marker.ok() && !*marker;
}

Status put(FileSystem& fs, const std::string& base, const std::string& file,
           const DatasetDescriptor& dataset, bool keep_newer) {
  const std::string temporary = base + "/" + temporary_name(file, dataset);
  const std::string path = base + "/" + file;
  bool unwanted = false;
  if (keep_newer) {
    SCR_ASSIGN_OR_RETURN(unwanted, is_unwanted(fs, base, file, dataset));
  }
  if (!unwanted) {
    SCR_RETURN_IF_ERROR(take_mode(fs, temporary, path));
    return fs.rename(temporary, path);
  }
  log::info("'{}' has been written anew or deleted since: the flushed copy is not put there", path);
  return fs.remove(temporary);
}

// Whether there is a file at the name. A marker holds the place of the flushed file itself.
Result<bool> is_taken(FileSystem& fs, const std::string& path) {
  auto info = fs.info(path);
  if (info.status().code() == StatusCode::kNotFound) return false;
  SCR_RETURN_IF_ERROR(info.status());
  if (info->type != FileInfo::Type::kRegular) return false;
  SCR_ASSIGN_OR_RETURN(const auto marker, routing::read_marker(fs, path));
  return !marker;
}

// Names that get a file of `mine` instead of the one there; if files of others may be waiting for
// them, those at which there is none yet, too.
Result<std::vector<std::string>> replaced_names(FileSystem& fs, const std::string& prefix,
                                                const DatasetDescriptor& dataset,
                                                const RankFiles& mine, bool keep_newer,
                                                bool others_wait) {
  std::vector<std::string> names;
  for (const StoredFile& file : mine) {
    const std::string path = prefix + "/" + file.file;
    bool replaced = others_wait;
    if (!replaced) {
      SCR_ASSIGN_OR_RETURN(replaced, is_taken(fs, path));
    }
    if (replaced && keep_newer) {
      SCR_ASSIGN_OR_RETURN(const bool stays, is_unwanted(fs, prefix, file.file, dataset));
      replaced = !stays;
    }
    if (replaced) names.push_back(file.file);
  }
  return names;
}

bool is_same(const DatasetDescriptor& a, const DatasetDescriptor& b) {
  return a.id == b.id && a.created == b.created;
}

// Flushes of other datasets that failed after their summary.
Result<std::vector<Unended>> unended_others(FileSystem& fs, const std::string& prefix,
                                            const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs, prefix));
  SCR_ASSIGN_OR_RETURN(auto unended, find_unended(fs, prefix, index));
  std::erase_if(unended, [&](const Unended& other) { return is_same(other.dataset, dataset); });
  return unended;
}

// One whose list cannot be read cannot be fetched either.
Status add_candidate(FileSystem& fs, const std::string& prefix, const std::string& directory,
                     const DatasetDescriptor& dataset, bool unended, Hash& hash) {
  auto ranks = read_rank_count(fs, prefix + "/.scr/" + directory);
  if (ranks.status().is_transient()) return ranks.status();
  if (!ranks.ok()) return {};
  Hash& candidate = hash.at(directory);
  candidate.set_value("CREATED", dataset.created);
  candidate.set_value("ID", dataset.id);
  candidate.set_value("BLOCKS", rank2file_block_count(*ranks));
  if (unended) candidate.set_value("UNENDED", 1);
  return {};
}

// Datasets but this one's own copies.
Result<Hash> read_candidates(FileSystem& fs, const std::string& prefix,
                             const DatasetDescriptor& dataset,
                             const std::vector<Unended>& unended) {
  SCR_ASSIGN_OR_RETURN(Index index, read_index(fs, prefix));
  Hash hash;
  for (const IndexEntry& entry : index.entries()) {
    if (is_same(entry.dataset, dataset)) continue;
    SCR_RETURN_IF_ERROR(add_candidate(fs, prefix, entry.directory, entry.dataset, false, hash));
  }
  for (const Unended& other : unended) {
    SCR_RETURN_IF_ERROR(add_candidate(fs, prefix, other.directory, other.dataset, true, hash));
  }
  return hash;
}

Result<std::vector<Candidate>> share_candidates(Communicator& world, FileSystem& fs,
                                                const std::string& prefix,
                                                const DatasetDescriptor& dataset,
                                                const std::vector<Unended>& unended) {
  Hash hash;
  Status status;
  if (world.rank() == 0) {
    auto read = read_candidates(fs, prefix, dataset, unended);
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
    candidate.unended = element.hash.contains("UNENDED");
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
          if (file.contained() || !file.fetch) continue;
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

// On rank 0, which knows what was found.
Status check_order(const DatasetDescriptor& dataset, const Candidate& candidate) {
  DatasetDescriptor other;
  other.id = candidate.id;
  other.created = candidate.dataset.created;
  if (!is_newer(other, dataset)) return {};
  return failed_precondition(
      fmt::format("dataset {} ('{}') would replace files of the newer dataset {}", dataset.id,
                  dataset.name, candidate.id));
}

// And those that they themselves had superseded, if their flushes failed at the very last step:
// only their intents know of them. The oldest first, so that a failure leaves these intents.
Result<std::vector<Superseded>> with_their_own(FileSystem& fs, const std::string& prefix,
                                               std::vector<Superseded> all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto intent = read_intent(fs, prefix + "/.scr/" + all[i].directory);
    if (intent.status().is_transient()) return intent.status();
    if (!intent.ok()) continue;
    for (const Superseded& older : intent->superseded) {
      if (std::ranges::find(all, older) == all.end()) all.push_back(older);
    }
  }
  std::ranges::reverse(all);
  return all;
}

}  // namespace

bool is_newer(const DatasetDescriptor& dataset, const DatasetDescriptor& than) {
  return std::tie(dataset.created, dataset.id) > std::tie(than.created, than.id);
}

Result<bool> put_in_place(FileSystem& fs, const std::string& base, const std::string& file,
                          const DatasetDescriptor& dataset, bool keep_newer) {
  const Status status = put(fs, base, file, dataset, keep_newer);
  if (status.code() == StatusCode::kNotFound) {
    SCR_ASSIGN_OR_RETURN(const bool waits, fs.exists(base + "/" + temporary_name(file, dataset)));
    if (!waits) return false;
  }
  SCR_RETURN_IF_ERROR(status);
  return true;
}

bool was_deleted(FileSystem& fs, const std::string& prefix, const std::string& file,
                 const DatasetDescriptor& dataset) {
  const auto deleted = routing::MarkerStore(fs, prefix).find_deletion(file);
  return deleted.ok() && *deleted && (*deleted)->dataset >= dataset.id;
}

bool was_let_go(FileSystem& fs, const std::string& prefix, const std::string& file,
                const DatasetDescriptor& dataset) {
  if (was_deleted(fs, prefix, file, dataset)) return true;
  const auto newer = routing::MarkerStore(fs, prefix).find(file);
  return newer.ok() && *newer && (*newer)->file == file && (*newer)->dataset > dataset.id;
}

Result<std::vector<Superseded>> find_superseded(Communicator& world, FileSystem& fs,
                                                const std::string& prefix,
                                                const DatasetDescriptor& dataset,
                                                const RankFiles& mine, bool keep_newer) {
  Result<std::vector<Unended>> unended = std::vector<Unended>();
  if (world.rank() == 0) unended = unended_others(fs, prefix, dataset);
  SCR_RETURN_IF_ERROR(agree_all(world, unended.status(), "looking for flushes to end"));
  const bool others_wait = world.any_true(!unended->empty());
  auto names = replaced_names(fs, prefix, dataset, mine, keep_newer, others_wait);
  SCR_RETURN_IF_ERROR(agree_all(world, names.status(), "looking for replaced files"));
  if (!world.any_true(!names->empty())) return std::vector<Superseded>();
  SCR_ASSIGN_OR_RETURN(auto candidates, share_candidates(world, fs, prefix, dataset, *unended));
  Hash send;
  for (const std::string& name : *names) send.at(home_of(name, world.size())).at(kNew).at(name);
  Status listed = add_listed_names(world, fs, prefix, candidates, send);
  SCR_RETURN_IF_ERROR(agree_all(world, listed, "looking for replaced files"));
  SCR_ASSIGN_OR_RETURN(Hash found, meet(world, send));
  std::vector<Superseded> superseded;
  Status status;
  for (const Candidate& candidate : candidates) {
    if (!found.contains(candidate.dataset.directory)) continue;
    if (status.ok() && !keep_newer) status = check_order(dataset, candidate);
    if (status.ok() && candidate.unended)
      status = roll_forward_directory(fs, prefix, candidate.dataset.directory).status();
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
  SCR_ASSIGN_OR_RETURN(const auto all, with_their_own(fs, prefix, superseded));
  for (const Superseded& old : all) {
    if (index.find_directory(old.directory) != nullptr) continue;
    Status status = remove_dataset_directory(fs, prefix, old.directory);
    if (status.is_transient()) return status;
    if (!status.ok()) log::warning("{}", status.message());  // somebody keeps files there
  }
  return {};
}

}  // namespace scr::flush
