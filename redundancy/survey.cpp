#include "redundancy/survey.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/checksum.hpp"
#include "redundancy/header.hpp"
#include "redundancy/plan.hpp"

namespace scr::redundancy {
namespace {

constexpr std::string_view kMember = "MEMBER";
constexpr std::string_view kDamage = "DAMAGE";
constexpr std::string_view kUnreadable = "UNREADABLE";
constexpr std::string_view kDataset = "DSET";
constexpr std::string_view kChunk = "CHUNK";
constexpr std::string_view kMetadata = "METADATA";

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Status compare_files(const MemberFiles& known, const MemberFiles& stored) {
  const auto equal = [](const FileMeta& a, const FileMeta& b) {
    return a.file == b.file && a.size == b.size && (!a.crc || a.crc == b.crc);
  };
  if (std::ranges::equal(known.files, stored.files, equal)) return {};
  return corrupt("its redundancy file is about other files than its filemap");
}

Status compare_header(const RedundancySet& set, const HostedMember& member,
                      const RedundancyHeader& header) {
  if (header.set != set || header.index != member.index) {
    return corrupt("its redundancy file belongs to another redundancy set");
  }
  const auto known = member.content.redundancy.crc;
  const std::uint32_t stored =
      crc32_combine(header.header_crc, header.payload_crc, header.payload_size());
  if (known && *known != stored)
    return corrupt("its redundancy file is not the one in its filemap");
  return compare_files(member.content, header.members.front());
}

// --- messages

Hash report(const RedundancySet& set, const Inspected& member) {
  Hash hash;
  if (!member.header) {
    hash.set_value(kDamage, member.damage);
    if (member.unreadable) hash.at(kUnreadable);
    return hash;
  }
  if (member.header->dataset.id != 0) hash.set(kDataset, member.header->dataset.to_hash());
  hash.set_value(kChunk, member.header->chunk);
  for (const MemberFiles& known : member.header->members) {
    hash.at(kMetadata).set(std::to_string(known.index), member_to_hash(set, known));
  }
  return hash;
}

// What one member's header says; survivors must agree.
Status learn(const RedundancySet& set, const Hash& message, Survey& result) {
  if (const Hash* hash = message.get(kDataset); hash != nullptr) {
    SCR_ASSIGN_OR_RETURN(DatasetDescriptor dataset, DatasetDescriptor::from_hash(*hash));
    const auto same = [&](const DatasetDescriptor& other) {
      return other.id == dataset.id && other.name == dataset.name &&
             other.created == dataset.created;
    };
    if (result.dataset.id != 0 && !same(result.dataset)) {
      return corrupt(fmt::format("some members hold dataset {} '{}', others {} '{}'",
                                 result.dataset.id, result.dataset.name, dataset.id, dataset.name));
    }
    if (result.dataset.id == 0) result.dataset = std::move(dataset);
  }
  const Hash* all = message.get(kMetadata);
  for (int i = 0; all != nullptr && i < set.size(); ++i) {
    const Hash* hash = all->get(std::to_string(i));
    if (hash == nullptr) continue;
    SCR_ASSIGN_OR_RETURN(MemberFiles files, member_from_hash(set, *hash));
    auto& known = result.metadata[at(i)];
    if (known && known->files != files.files) {
      return corrupt(fmt::format("members contradict each other about the files of rank {}",
                                 set.members[at(i)].rank));
    }
    known = std::move(files);
  }
  return {};
}

Status learn_all(const RedundancySet& set, const std::vector<Hash>& messages, Survey& result) {
  std::vector<const Hash*> by_member(at(set.size()));
  for (const Hash& message : messages) {
    const Hash* members = message.get(kMember);
    for (int i = 0; members != nullptr && i < set.size(); ++i) {
      if (const Hash* hash = members->get(std::to_string(i))) by_member[at(i)] = hash;
    }
  }
  Status status;
  for (int i = 0; i < set.size(); ++i) {
    const Hash* hash = by_member[at(i)];
    const auto damage = hash == nullptr ? "no process hosts it" : hash->value(kDamage);
    result.lost[at(i)] = damage.has_value();
    result.reasons[at(i)] = damage.value_or("");
    if (hash != nullptr && hash->contains(kUnreadable)) result.any_unreadable = true;
    if (!damage && status.ok()) status = learn(set, *hash, result);
  }
  return status;
}

// The chunk follows from the sizes; a header that has another was not made for these files.
Status check_chunks(const RedundancySet& set, const std::vector<Hash>& messages,
                    const Survey& result) {
  if (set.scheme == Scheme::kSingle) return {};
  for (const Hash& message : messages) {
    for (int i = 0; i < set.size(); ++i) {
      const Hash* hash = message.getf("MEMBER %d", i);
      if (hash == nullptr || result.lost[at(i)]) continue;
      SCR_ASSIGN_OR_RETURN(const std::uint64_t chunk, hash->require_uint(kChunk));
      if (chunk != header_chunk(set, result.totals, i)) {
        return corrupt(fmt::format("the chunk of rank {} does not fit the sizes of the files",
                                   set.members[at(i)].rank));
      }
    }
  }
  return {};
}

Status unbearable(const RedundancySet& set, const Survey& found) {
  const std::string dataset =
      found.dataset.id == 0 ? "a dataset"
                            : fmt::format("dataset {} '{}'", found.dataset.id, found.dataset.name);
  const std::string bears =
      set.failures == 0 ? "no loss"
      : set.scheme == Scheme::kPartner
          ? "the loss of members that are not neighbours"
          : fmt::format("the loss of {} of its {} members", set.failures, set.size());
  return {found.any_unreadable ? StatusCode::kIoError : StatusCode::kUnrecoverable,
          fmt::format("cannot rebuild {}: redundancy set {} ({}) bears {}, but lost are {}",
                      dataset, set.id, scheme_name(set.scheme), bears, found.describe_losses(set))};
}

Result<std::vector<std::uint64_t>> totals_of(const RedundancySet& set, const Survey& found) {
  std::vector<std::uint64_t> totals;
  for (int i = 0; i < set.size(); ++i) {
    if (!found.metadata[at(i)]) {
      return internal_error(
          fmt::format("nobody knows the files of rank {}", set.members[at(i)].rank));
    }
    SCR_ASSIGN_OR_RETURN(totals.emplace_back(), total_size(*found.metadata[at(i)]));
  }
  return totals;
}

}  // namespace

// --- the survey

bool Survey::any_lost() const { return std::ranges::count(lost, true) != 0; }

RedundancyHeader Survey::header_for(const RedundancySet& set, int index) const {
  RedundancyHeader header;
  header.dataset = dataset;
  header.set = set;
  header.index = index;
  header.chunk = header_chunk(set, totals, index);
  header.members.push_back(*metadata[at(index)]);
  for (int i = 0; i < set.size(); ++i) {
    if (i != index && keeps_metadata(set, index, i)) header.members.push_back(*metadata[at(i)]);
  }
  return header;
}

std::string Survey::describe_losses(const RedundancySet& set) const {
  std::string text;
  for (int i = 0; i < set.size(); ++i) {
    if (!lost[at(i)]) continue;
    const Member& member = set.members[at(i)];
    text += fmt::format("{}rank {} (on {}): {}", text.empty() ? "" : "; ", member.rank, member.host,
                        reasons[at(i)]);
  }
  return text;
}

Result<Survey> survey(Peers& peers, const RedundancySet& set, const std::vector<Inspected>& mine) {
  Hash message;
  for (const Inspected& member : mine) {
    message.at(kMember).set(std::to_string(member.index), report(set, member));
  }
  const auto messages = peers.exchange([&](std::size_t /*process*/) { return message; });
  SCR_RETURN_IF_ERROR(peers.first_failure(messages));
  Survey result;
  result.lost.resize(at(set.size()));
  result.reasons.resize(at(set.size()));
  result.metadata.resize(at(set.size()));
  SCR_RETURN_IF_ERROR(learn_all(set, messages, result));
  if (!is_bearable(set, result.lost)) return unbearable(set, result);
  SCR_ASSIGN_OR_RETURN(result.totals, totals_of(set, result));
  SCR_RETURN_IF_ERROR(check_chunks(set, messages, result));
  return result;
}

Inspected inspect(FileSystem& fs, const RedundancySet& set, const HostedMember& member) {
  if (!member.present) {
    return lost_member(member.index,
                       member.problem.ok() ? not_found("its files are missing") : member.problem);
  }
  Inspected result{member.index, std::nullopt, ""};
  if (set.scheme == Scheme::kSingle) {
    result.header = RedundancyHeader{};
    result.header->members = {member.content};
    return result;
  }
  auto header = read_redundancy_header(fs, At(*member.directory, set.file_name(member.index)));
  Status status = header.ok() ? compare_header(set, member, *header) : header.status();
  if (!status.ok()) return lost_member(member.index, status);
  result.header = *std::move(header);
  return result;
}

Inspected lost_member(int index, const Status& why) {
  return {index, std::nullopt, std::string(why.message()), why.may_hide_sound_data()};
}

}  // namespace scr::redundancy
