#include <fmt/format.h>

#include "core/base/checksum.hpp"
#include "core/base/hash_file.hpp"
#include "redundancy/header.hpp"
#include "redundancy/member_io.hpp"
#include "redundancy/pass.hpp"
#include "redundancy/peers.hpp"
#include "redundancy/redundancy.hpp"

namespace scr::redundancy {
namespace {

constexpr std::string_view kTotal = "TOTAL";
constexpr std::string_view kMetadata = "METADATA";

std::vector<int> ranks_of(const RedundancySet& set) {
  std::vector<int> ranks;
  for (const Member& member : set.members) ranks.push_back(member.rank);
  return ranks;
}

// One member's work. Each step ends in an exchange, so that all members go on or none does.
class Encoder {
 public:
  Encoder(Communicator& comm, FileSystem& fs, const Directory& directory,
          const DatasetDescriptor& dataset, const RedundancySet& set, MemberFiles& member)
      : comm_(comm),
        fs_(fs),
        directory_(directory),
        set_(set),
        member_(member),
        peers_(comm, ranks_of(set)),
        local_(member.index, fs, directory) {
    header_.dataset = dataset;
    header_.set = set;
    header_.index = member.index;
  }

  Status run(std::size_t piece_size) {
    Status status = steps(piece_size);
    if (!status.ok()) {
      (void)local_.payload.close();
      (void)fs_.remove_if_exists(At(directory_, set_.file_name(member_.index)));
    }
    return status;
  }

 private:
  Status steps(std::size_t piece_size) {
    // Checksums have a fixed width in the header, so with any values it has its final length.
    for (FileMeta& file : member_.files) {
      known_.push_back(file.crc);
      file.crc = 0;
    }
    // What the others would refuse is refused here, where it can be told to all.
    local_.status = member_from_hash(set_, member_to_hash(set_, member_)).status();
    if (local_.status.ok()) local_.status = open_member_files(member_, local_.files);
    SCR_RETURN_IF_ERROR(exchange_metadata());
    if (Status created = create_redundancy_file(); !created.ok()) local_.status = created;
    run_pass(comm_, ranks_of(set_), plan_encode(set_, totals_), {&local_, 1}, piece_size);
    if (local_.status.ok()) local_.status = take_checksums();
    SCR_RETURN_IF_ERROR(exchange_metadata());
    return peers_.exchange_status(finish_redundancy_file());
  }

  // Tells all members how much this one has, and those that keep it in their headers the rest as
  // well.
  Status exchange_metadata();
  Status learn(const Hash& message, int member);
  Status create_redundancy_file();
  Status take_checksums();
  // The payload is another member's data, summed where it was read.
  bool holds_copy() const { return set_.scheme == Scheme::kPartner; }
  std::uint32_t copy_checksum() const;
  Status finish_redundancy_file();

  Communicator& comm_;
  FileSystem& fs_;
  const Directory& directory_;
  const RedundancySet& set_;
  MemberFiles& member_;
  Peers peers_;
  LocalMember local_;
  RedundancyHeader header_;
  std::vector<std::uint64_t> totals_;
  std::size_t header_length_ = 0;
  std::vector<std::optional<std::uint32_t>> known_;  // checksums of the files, from who wrote them
};

Status Encoder::exchange_metadata() {
  Hash brief;
  if (!local_.status.ok()) brief.set(kFailureKey, status_to_hash(local_.status));
  brief.set_value(kTotal, local_.files.size());
  const std::vector<Hash> messages = peers_.exchange([&](std::size_t process) {
    Hash message = brief;
    if (keeps_metadata(set_, set_.index_of(peers_.processes()[process]), member_.index)) {
      message.set(kMetadata, member_to_hash(set_, member_));
    }
    return message;
  });
  if (!local_.status.ok()) return local_.status;
  SCR_RETURN_IF_ERROR(peers_.first_failure(messages));
  totals_.assign(messages.size(), 0);
  header_.members = {member_};
  std::vector<const Hash*> by_member(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    by_member[static_cast<std::size_t>(set_.index_of(peers_.processes()[i]))] = &messages[i];
  }
  for (int i = 0; i < set_.size(); ++i) {
    SCR_RETURN_IF_ERROR(learn(*by_member[static_cast<std::size_t>(i)], i));
  }
  header_.chunk = header_chunk(set_, totals_, member_.index);
  return {};
}

Status Encoder::learn(const Hash& message, int member) {
  SCR_ASSIGN_OR_RETURN(totals_[static_cast<std::size_t>(member)], message.require_uint(kTotal));
  const Hash* metadata = message.get(kMetadata);
  if (metadata == nullptr || member == member_.index) return {};
  SCR_ASSIGN_OR_RETURN(MemberFiles files, member_from_hash(set_, *metadata));
  header_.members.push_back(std::move(files));
  return {};
}

Status Encoder::create_redundancy_file() {
  SCR_ASSIGN_OR_RETURN(const auto bytes, encode_hash_file(header_.to_hash()));
  header_length_ = bytes.size();
  const auto summing = holds_copy() ? LogicalFile::Summing::kOff : LogicalFile::Summing::kOn;
  return local_.payload.create(set_.file_name(member_.index), header_length_,
                               header_.payload_size(), summing);
}

Status Encoder::take_checksums() {
  for (std::size_t i = 0; i < member_.files.size(); ++i) {
    member_.files[i].crc = local_.files.checksum(i);
    if (!member_.files[i].crc) return internal_error("a file was not read to its end");
    if (known_[i]) {
      SCR_RETURN_IF_ERROR(compare_checksum(member_.files[i].file, member_.files[i].crc, known_[i]));
    }
  }
  if (!holds_copy()) {
    const auto payload_crc = local_.payload.checksum(0);
    if (!payload_crc) return internal_error("a redundancy file was not written to its end");
    header_.payload_crc = *payload_crc;
  }
  SCR_RETURN_IF_ERROR(local_.payload.set_sizes());
  return local_.files.close();
}

// That of the left neighbour's files, laid end to end. Being made from what was read there, it also
// covers the way here.
std::uint32_t Encoder::copy_checksum() const {
  std::uint32_t crc = 0;
  for (const FileMeta& file : header_.members.back().files) {
    crc = crc32_combine(crc, file.crc.value_or(0), file.size);
  }
  return crc;
}

Status Encoder::finish_redundancy_file() {
  if (holds_copy()) header_.payload_crc = copy_checksum();
  return write_redundancy_header(header_, header_length_, local_.payload, member_.redundancy);
}

Status checksum_files(FileSystem& fs, const Directory& directory, MemberFiles& member,
                      std::size_t piece_size) {
  if (std::ranges::all_of(member.files, [](const FileMeta& file) { return file.crc.has_value(); }))
    return {};
  LogicalFile files(fs, directory);
  SCR_RETURN_IF_ERROR(open_member_files(member, files));
  SCR_RETURN_IF_ERROR(read_through(files, piece_size));
  for (std::size_t i = 0; i < member.files.size(); ++i) {
    if (member.files[i].crc) {
      SCR_RETURN_IF_ERROR(
          compare_checksum(member.files[i].file, files.checksum(i), member.files[i].crc));
    }
    member.files[i].crc = files.checksum(i);
  }
  return files.close();
}

}  // namespace

Status encode(Communicator& comm, FileSystem& fs, const Directory& directory,
              const DatasetDescriptor& dataset, const RedundancySet& set, MemberFiles& member,
              const EncodeOptions& options) {
  const std::size_t piece =
      options.piece_size == 0 ? default_piece_size(set.size()) : options.piece_size;
  Status status = set.scheme == Scheme::kSingle
                      ? checksum_files(fs, directory, member, piece)
                      : Encoder(comm, fs, directory, dataset, set, member).run(piece);
  return status.with_context(
      fmt::format("cannot protect dataset {} with {}", dataset.id, scheme_name(set.scheme)));
}

}  // namespace scr::redundancy
