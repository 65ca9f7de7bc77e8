#include "flush/rank2file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/checksum.hpp"
#include "core/base/hash_file.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr::flush {

namespace {

constexpr int kVersion = 1;

std::string top_name(const std::string& directory) { return directory + "/rank2file.scr"; }
std::string block_name(const std::string& directory, int block) {
  return fmt::format("{}/rank2file.{}.scr", directory, block);
}

Status check_version(const Hash& hash) {
  SCR_ASSIGN_OR_RETURN(std::int64_t version, hash.require_int("VERSION"));
  if (version == kVersion) return {};
  return corrupt(fmt::format("rank2file of version {}, this program knows {}", version, kVersion));
}

Hash file_to_hash(const StoredFile& file) {
  Hash hash;
  hash.set_value("SIZE", file.size);
  hash.set_value("CRC", crc32_to_text(file.crc));
  if (file.mtime_ns) hash.set_value("MTIME", *file.mtime_ns);
  if (!file.fetch) hash.at("NOFETCH");
  if (file.shared) hash.at("SHARED");
  if (file.contained()) hash.set("SEG", segments_to_hash(file.segments));
  return hash;
}

Result<StoredFile> file_from_hash(std::string_view name, const Hash& hash) {
  StoredFile file;
  SCR_ASSIGN_OR_RETURN(file.file, safe_relative_path(name));
  SCR_ASSIGN_OR_RETURN(file.size, hash.require_uint("SIZE"));
  SCR_ASSIGN_OR_RETURN(std::string crc, hash.require_value("CRC"));
  SCR_ASSIGN_OR_RETURN(file.crc, crc32_from_text(crc));
  if (hash.contains("MTIME")) {
    SCR_ASSIGN_OR_RETURN(file.mtime_ns, hash.require_int("MTIME"));
  }
  file.fetch = !hash.contains("NOFETCH");
  file.shared = hash.contains("SHARED");
  if (const Hash* segments = hash.get("SEG")) {
    file.in_container = true;
    SCR_ASSIGN_OR_RETURN(file.segments, segments_from_hash(*segments, file.size));
  }
  return file;
}

}  // namespace

Hash rank_files_to_hash(const RankFiles& files) {
  Hash hash;
  hash.set_value("FILES", files.size());
  for (const StoredFile& file : files) hash.at("FILE").set(file.file, file_to_hash(file));
  return hash;
}

Result<RankFiles> rank_files_from_hash(const Hash& hash) {
  RankFiles files;
  SCR_ASSIGN_OR_RETURN(std::uint64_t count, hash.require_uint("FILES"));
  if (const Hash* list = hash.get("FILE")) {
    for (const auto& element : list->elements()) {
      auto file = file_from_hash(element.key, element.hash);
      if (!file.ok()) return file.status();
      files.push_back(std::move(*file));
    }
  }
  if (files.size() != count) {
    return corrupt(fmt::format("{} files are listed where {} are expected", files.size(), count));
  }
  return files;
}

Status write_rank2file_block(FileSystem& fs, const std::string& directory, int block,
                             const std::map<int, RankFiles>& ranks) {
  Hash hash;
  hash.set_value("VERSION", kVersion);
  for (const auto& [rank, files] : ranks) {
    hash.at("RANK").set(std::to_string(rank), rank_files_to_hash(files));
  }
  return write_hash_file(fs, block_name(directory, block), hash, Durability::kDurable);
}

Status write_rank2file_top(FileSystem& fs, const std::string& directory, int ranks,
                           Durability durability) {
  Hash hash;
  hash.set_value("VERSION", kVersion);
  hash.set_value("RANKS", ranks);
  hash.set_value("BLOCK", kRanksPerBlock);
  return write_hash_file(fs, top_name(directory), hash, durability);
}

Result<int> rank_count_from_hash(const Hash& hash) {
  SCR_RETURN_IF_ERROR(check_version(hash));
  SCR_ASSIGN_OR_RETURN(const std::int64_t ranks, hash.require_int("RANKS"));
  SCR_ASSIGN_OR_RETURN(const std::int64_t block, hash.require_int("BLOCK"));
  if (ranks < 1 || ranks > std::numeric_limits<int>::max() || block != kRanksPerBlock)
    return corrupt("it has an impossible number of ranks or size of blocks");
  return static_cast<int>(ranks);
}

Result<int> read_rank_count(FileSystem& fs, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, top_name(directory)));
  auto ranks = rank_count_from_hash(hash);
  if (!ranks.ok()) return ranks.status().with_context("'" + top_name(directory) + "'");
  return ranks;
}

Result<std::map<int, RankFiles>> read_rank2file_block(FileSystem& fs, const std::string& directory,
                                                      int block) {
  const std::string name = block_name(directory, block);
  SCR_ASSIGN_OR_RETURN(Hash hash, read_hash_file(fs, name));
  auto ranks = rank2file_block_from_hash(hash, block);
  if (!ranks.ok()) return ranks.status().with_context("'" + name + "'");
  return ranks;
}

Result<std::map<int, RankFiles>> rank2file_block_from_hash(const Hash& hash, int block) {
  SCR_RETURN_IF_ERROR(check_version(hash));
  std::map<int, RankFiles> ranks;
  const Hash* list = hash.get("RANK");
  if (list == nullptr) return corrupt("no ranks are listed");
  for (const auto& element : list->elements()) {
    const auto rank = text::parse_uint(element.key);
    if (!rank || *rank / kRanksPerBlock != static_cast<std::uint64_t>(block) ||
        std::to_string(*rank) != element.key) {
      return corrupt(fmt::format("'{}' is no rank of this block", text::escape(element.key)));
    }
    auto files = rank_files_from_hash(element.hash);
    if (!files.ok()) return files.status().with_context(fmt::format("rank {}", *rank));
    ranks.emplace(static_cast<int>(*rank), std::move(*files));
  }
  return ranks;
}

// The ranks of one block as a communicator; its rank 0 reads and writes.
static std::unique_ptr<Communicator> block_communicator(Communicator& comm) {
  return comm.split(comm.rank() / kRanksPerBlock, comm.rank());
}

Status write_rank2file(Communicator& comm, FileSystem& fs, const std::string& directory,
                       const RankFiles& mine, Durability durability) {
  auto block = block_communicator(comm);
  Hash send;
  send.at("0").set(std::to_string(comm.rank()), rank_files_to_hash(mine));
  Hash receive;
  Status status = exchange_hashes(*block, send, receive);
  if (status.ok() && block->rank() == 0) {
    Hash hash;
    hash.set_value("VERSION", kVersion);
    Hash& ranks = hash.at("RANK");
    for (auto& element : receive.elements()) ranks.merge(element.hash);
    status =
        write_hash_file(fs, block_name(directory, comm.rank() / kRanksPerBlock), hash, durability);
  }
  if (status.ok() && comm.rank() == 0)
    status = write_rank2file_top(fs, directory, comm.size(), durability);
  return agree_all(comm, status, "writing rank2file");
}

Status sync_rank2file(FileSystem& fs, const std::string& directory, int rank) {
  if (rank % kRanksPerBlock != 0) return {};
  const std::string block = block_name(directory, rank / kRanksPerBlock);
  // The other one begun as well, so that a journal needs to be written only once for both.
  SCR_ASSIGN_OR_RETURN(auto other,
                       fs.open(rank == 0 ? top_name(directory) : block, OpenOptions::read_write()));
  other->start_writing(0, 0);
  SCR_RETURN_IF_ERROR(fs.sync_file(block));
  if (rank == 0) SCR_RETURN_IF_ERROR(other->sync());
  return fs.sync_directory(directory);
}

Result<RankFiles> read_rank2file(Communicator& comm, FileSystem& fs, const std::string& directory) {
  std::int64_t ranks = 0;
  Status status;
  if (comm.rank() == 0) {
    auto count = read_rank_count(fs, directory);
    if (count.ok()) ranks = *count;
    status = count.status();
  }
  SCR_RETURN_IF_ERROR(agree_all(comm, status, "reading rank2file"));
  ranks = comm.all_reduce(ranks, ReduceOp::kMax);
  if (ranks != comm.size()) {
    return failed_precondition(
        fmt::format("the dataset was written by {} ranks, this run has {}", ranks, comm.size()));
  }
  auto block = block_communicator(comm);
  Hash send;
  if (block->rank() == 0) {
    const int index = comm.rank() / kRanksPerBlock;
    auto files = read_rank2file_block(fs, directory, index);
    status = files.status();
    for (int i = 0; status.ok() && i < block->size(); ++i) {
      auto rank = files->find(index * kRanksPerBlock + i);
      if (rank == files->end()) {
        status = corrupt(fmt::format("'{}' has no entry for rank {}", block_name(directory, index),
                                     index * kRanksPerBlock + i));
      } else {
        send.set(std::to_string(i), rank_files_to_hash(rank->second));
      }
    }
  }
  SCR_RETURN_IF_ERROR(agree_all(comm, status, "reading rank2file"));
  Hash receive;
  SCR_RETURN_IF_ERROR(exchange_hashes(*block, send, receive));
  const Hash* mine = receive.get("0");
  SCR_ASSIGN_OR_RETURN(RankFiles files, rank_files_from_hash(mine ? *mine : Hash()));
  std::erase_if(files, [](const StoredFile& file) { return !file.fetch; });
  return files;
}

}  // namespace scr::flush
