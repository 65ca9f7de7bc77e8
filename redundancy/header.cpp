#include "redundancy/header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/byte_order.hpp"
#include "core/base/checksum.hpp"
#include "core/base/hash_file.hpp"
#include "redundancy/plan.hpp"

namespace scr::redundancy {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

const Member& member_of(const RedundancySet& set, int index) {
  return set.members[static_cast<std::size_t>(index)];
}

Result<int> require_index(const Hash& hash, std::string_view key, const RedundancySet& set) {
  SCR_ASSIGN_OR_RETURN(const std::int64_t index, hash.require_int(key));
  if (index < 0 || index >= set.size()) {
    return corrupt(fmt::format("key '{}' has the impossible value {}", key, index));
  }
  return static_cast<int>(index);
}

Status check_file(const FileMeta& file, std::set<std::string>& names) {
  if (file.type != FileType::kFull) {
    return corrupt(
        fmt::format("'{}' is listed with type {}", file.file, file_type_name(file.type)));
  }
  if (!file.crc) return corrupt(fmt::format("'{}' is listed without a checksum", file.file));
  if (!names.insert(file.file).second)
    return corrupt(fmt::format("'{}' is listed twice", file.file));
  return {};
}

Result<MemberFiles> require_member(const Hash& hash, std::string_view key, const RedundancySet& set,
                                   int index) {
  const Hash* found = hash.get(key);
  if (found == nullptr) return corrupt(fmt::format("key '{}' is missing", key));
  SCR_ASSIGN_OR_RETURN(MemberFiles member, member_from_hash(set, *found));
  if (member.index != index) {
    return corrupt(fmt::format("key '{}' is about rank {}, not {}", key,
                               member_of(set, member.index).rank, member_of(set, index).rank));
  }
  return member;
}

Status read_members(const Hash& hash, RedundancyHeader& header) {
  SCR_ASSIGN_OR_RETURN(MemberFiles own, require_member(hash, "CURRENT", header.set, header.index));
  header.members.push_back(std::move(own));
  if (header.set.scheme != Scheme::kReedSolomon) {
    SCR_ASSIGN_OR_RETURN(MemberFiles left, require_member(hash, "PARTNER", header.set,
                                                          header.set.left_of(header.index)));
    header.members.push_back(std::move(left));
    return {};
  }
  const Hash* others = hash.get("MEMBER");
  if (others == nullptr) return corrupt("key 'MEMBER' is missing");
  for (int i = 0; i < header.set.size(); ++i) {
    if (i == header.index) continue;
    SCR_ASSIGN_OR_RETURN(MemberFiles member,
                         require_member(*others, std::to_string(i), header.set, i));
    header.members.push_back(std::move(member));
  }
  return {};
}

// The chunk must hold what the members are said to have, and the payload must be a possible size.
Status check_chunk(const RedundancyHeader& header) {
  const RedundancySet& set = header.set;
  const bool partner = set.scheme == Scheme::kPartner;
  const auto chunks = static_cast<std::uint64_t>(set.size() - set.failures);
  std::vector<std::uint64_t> totals(static_cast<std::size_t>(set.size()));
  std::uint64_t most = 0;
  for (const MemberFiles& member : header.members) {
    SCR_ASSIGN_OR_RETURN(const std::uint64_t total, total_size(member));
    totals[static_cast<std::size_t>(member.index)] = total;
    most = std::max(most, total);
  }
  bool possible = header.chunk <= kMostBytes / static_cast<std::uint64_t>(set.size());
  if (partner || set.scheme == Scheme::kReedSolomon) {
    possible = possible && header.chunk == header_chunk(set, totals, header.index);
  } else {
    possible = possible && header.chunk * chunks >= most;  // others may have more
  }
  if (possible) return {};
  return corrupt(fmt::format("chunks of {} bytes do not fit the files listed", header.chunk));
}

}  // namespace

// --- members

Hash member_to_hash(const RedundancySet& set, const MemberFiles& member) {
  Hash hash;
  hash.set_value("RANK", member_of(set, member.index).rank);
  hash.set_value("FILES", member.files.size());
  Hash& list = hash.at("FILE");
  for (std::size_t i = 0; i < member.files.size(); ++i) {
    list.set(std::to_string(i), member.files[i].to_hash());
  }
  if (!member.flush.empty()) hash.set("FLUSHDESC", member.flush);
  return hash;
}

Result<MemberFiles> member_from_hash(const RedundancySet& set, const Hash& hash) {
  MemberFiles member;
  SCR_ASSIGN_OR_RETURN(const std::int64_t rank, hash.require_int("RANK"));
  const bool possible = rank >= 0 && rank <= std::numeric_limits<int>::max();
  member.index = possible ? set.index_of(static_cast<int>(rank)) : -1;
  if (member.index < 0) return corrupt(fmt::format("rank {} is not in the redundancy set", rank));
  SCR_ASSIGN_OR_RETURN(const std::uint64_t files, hash.require_uint("FILES"));
  const Hash* list = hash.get("FILE");
  if (list == nullptr || list->size() != files) {
    return corrupt(fmt::format("rank {} has {} files, but lists another number", rank, files));
  }
  if (files != 0 && member_of(set, member.index).guest) {
    return corrupt(fmt::format("rank {} is a guest, but lists files", rank));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < files; ++i) {
    const Hash* entry = list->get(std::to_string(i));
    if (entry == nullptr) return corrupt(fmt::format("file {} of rank {} is missing", i, rank));
    SCR_ASSIGN_OR_RETURN(FileMeta meta, FileMeta::from_hash(*entry));
    SCR_RETURN_IF_ERROR(check_file(meta, names));
    member.files.push_back(std::move(meta));
  }
  if (const Hash* flush = hash.get("FLUSHDESC")) member.flush = *flush;
  SCR_RETURN_IF_ERROR(total_size(member).status());
  return member;
}

Result<std::uint64_t> total_size(const MemberFiles& member) {
  std::uint64_t total = 0;
  for (const FileMeta& file : member.files) {
    if (file.size > kMostBytes - total) {
      return corrupt(fmt::format("'{}' has the impossible size {}", file.file, file.size));
    }
    total += file.size;
  }
  return total;
}

bool keeps_metadata(const RedundancySet& set, int keeper, int member) {
  return keeper == member || set.scheme == Scheme::kReedSolomon || set.left_of(keeper) == member;
}

// --- headers

std::uint64_t RedundancyHeader::payload_size() const {
  return set.scheme == Scheme::kPartner ? chunk : chunk * static_cast<std::uint64_t>(set.failures);
}

Hash RedundancyHeader::to_hash() const {
  Hash hash;
  hash.set("DSET", dataset.to_hash());
  hash.set_value("RANKS", dataset.ranks);
  hash.merge(set.to_hash());
  hash.set_value("CHUNK", chunk);
  hash.set_value("CRC", crc32_to_text(payload_crc));
  hash.set_value("INDEX", index);
  for (const MemberFiles& member : members) {
    Hash metadata = member_to_hash(set, member);
    if (member.index == index) {
      hash.set("CURRENT", std::move(metadata));
    } else if (set.scheme == Scheme::kReedSolomon) {
      hash.at("MEMBER").set(std::to_string(member.index), std::move(metadata));
    } else {
      hash.set("PARTNER", std::move(metadata));
    }
  }
  return hash;
}

Result<RedundancyHeader> RedundancyHeader::from_hash(const Hash& hash) {
  RedundancyHeader header;
  const Hash* dataset = hash.get("DSET");
  if (dataset == nullptr) return corrupt("key 'DSET' is missing");
  SCR_ASSIGN_OR_RETURN(header.dataset, DatasetDescriptor::from_hash(*dataset));
  SCR_ASSIGN_OR_RETURN(const std::int64_t ranks, hash.require_int("RANKS"));
  if (ranks != header.dataset.ranks) return corrupt("two different numbers of ranks are given");
  SCR_ASSIGN_OR_RETURN(header.set, RedundancySet::from_hash(hash));
  if (header.set.scheme == Scheme::kSingle) return corrupt("SINGLE has no redundancy files");
  SCR_ASSIGN_OR_RETURN(header.index, require_index(hash, "INDEX", header.set));
  SCR_ASSIGN_OR_RETURN(header.chunk, hash.require_uint("CHUNK"));
  SCR_ASSIGN_OR_RETURN(const std::string crc, hash.require_value("CRC"));
  SCR_ASSIGN_OR_RETURN(header.payload_crc, crc32_from_text(crc));
  SCR_RETURN_IF_ERROR(read_members(hash, header));
  SCR_RETURN_IF_ERROR(check_chunk(header));
  return header;
}

namespace {

// The bytes of the hash file at the start of a redundancy file.
Result<std::vector<std::byte>> read_header_bytes(File& file, std::uint64_t file_size) {
  std::vector<std::byte> bytes(kHashFileHeaderSize);
  SCR_RETURN_IF_ERROR(file.read_exactly(bytes, 0));
  constexpr std::size_t kSizeOffset = 8;
  const auto size = read_big_endian<std::uint64_t>(std::span(bytes).subspan(kSizeOffset));
  if (size > bytes.size() && size <= file_size) {
    bytes.resize(static_cast<std::size_t>(size));
    SCR_RETURN_IF_ERROR(file.read_exactly(bytes, 0));
  }
  return bytes;
}

}  // namespace

Result<RedundancyHeader> read_redundancy_header(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.open(at, OpenOptions::read()));
  SCR_ASSIGN_OR_RETURN(const FileInfo info, file->info());
  SCR_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_header_bytes(*file, info.size));
  std::size_t length = 0;
  SCR_ASSIGN_OR_RETURN(const Hash hash, decode_hash_file_prefix(bytes, at.display(), length));
  auto header = RedundancyHeader::from_hash(hash);
  const std::string context = fmt::format("'{}' is not a valid redundancy file", at.display());
  if (!header.ok()) return header.status().with_context(context);
  header->payload_offset = length;
  header->header_crc = crc32(std::span(bytes).first(length));
  const std::uint64_t expected = length + header->payload_size();
  if (info.size != expected) {
    return corrupt(
        fmt::format("{}: it has {} bytes, its header says {}", context, info.size, expected));
  }
  return header;
}

}  // namespace scr::redundancy
