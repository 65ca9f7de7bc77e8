#include "redundancy/scheme.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/text.hpp"

namespace scr::redundancy {
namespace {

std::string_view file_suffix(Scheme scheme) {
  switch (scheme) {
    case Scheme::kSingle:
      return "";
    case Scheme::kPartner:
      return "partner";
    case Scheme::kXor:
      return "xor";
    case Scheme::kReedSolomon:
      return "rs";
  }
  return "";
}

Result<int> require_int_in(const Hash& hash, std::string_view key, int low, int high) {
  SCR_ASSIGN_OR_RETURN(const std::int64_t value, hash.require_int(key));
  if (value < low || value > high) {
    return corrupt(fmt::format("key '{}' has the impossible value {}", key, value));
  }
  return static_cast<int>(value);
}

Status check_failures(const RedundancySet& set) {
  const int size = set.size();
  bool possible = false;
  switch (set.scheme) {
    case Scheme::kSingle:
      possible = size == 1 && set.failures == 0;
      break;
    case Scheme::kPartner:
    case Scheme::kXor:
      possible = size >= 2 && set.failures == 1;
      break;
    case Scheme::kReedSolomon:
      possible = size <= kMostReedSolomonMembers && set.failures >= 1 && set.failures < size;
      break;
  }
  if (possible) return {};
  return corrupt(fmt::format("a {} set of {} members cannot bear {} failures",
                             scheme_name(set.scheme), size, set.failures));
}

Status check_members(const RedundancySet& set) {
  std::set<int> ranks;
  int lowest = std::numeric_limits<int>::max();
  for (const Member& member : set.members) {
    if (!ranks.insert(member.rank).second) {
      return corrupt(fmt::format("rank {} is in a redundancy set twice", member.rank));
    }
    if (!member.guest) lowest = std::min(lowest, member.rank);
  }
  if (set.id == lowest) return {};
  return corrupt(fmt::format("a redundancy set has id {}, which is not its lowest rank", set.id));
}

Result<Member> member_from(const Hash& list, int index) {
  SCR_ASSIGN_OR_RETURN(const int rank, require_int_in(list, std::to_string(index), 0,
                                                      std::numeric_limits<int>::max() - 1));
  const Hash* details = list.get(std::to_string(index))->get(std::to_string(rank));
  if (details == nullptr) return corrupt("a rank of a redundancy set is not a plain number");
  return Member{rank, std::string(details->value("HOST").value_or("")),
                details->value("GUEST") == "1"};
}

}  // namespace

std::string_view scheme_name(Scheme scheme) {
  switch (scheme) {
    case Scheme::kSingle:
      return "SINGLE";
    case Scheme::kPartner:
      return "PARTNER";
    case Scheme::kXor:
      return "XOR";
    case Scheme::kReedSolomon:
      return "RS";
  }
  return "SINGLE";
}

Result<Scheme> parse_scheme(std::string_view name) {
  for (const Scheme scheme :
       {Scheme::kSingle, Scheme::kPartner, Scheme::kXor, Scheme::kReedSolomon}) {
    if (name == scheme_name(scheme)) return scheme;
  }
  return invalid_argument(fmt::format(
      "unknown redundancy scheme '{}': use SINGLE, PARTNER, XOR or RS", text::escape(name)));
}

FileType redundancy_file_type(Scheme scheme) {
  switch (scheme) {
    case Scheme::kSingle:
      return FileType::kFull;
    case Scheme::kPartner:
      return FileType::kPartner;
    case Scheme::kXor:
      return FileType::kXor;
    case Scheme::kReedSolomon:
      return FileType::kReedSolomon;
  }
  return FileType::kFull;
}

int RedundancySet::index_of(int rank) const {
  const auto found = std::ranges::find(members, rank, &Member::rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

std::string RedundancySet::file_name(int index) const {
  if (scheme == Scheme::kSingle) return "";
  return fmt::format("{}_of_{}_in_{}.{}", index + 1, size(), id, file_suffix(scheme));
}

Hash RedundancySet::to_hash() const {
  Hash hash;
  hash.set_value("TYPE", scheme_name(scheme));
  hash.set_value("FAILURES", failures);
  Hash& group = hash.at("GROUP");
  group.set_value("ID", id);
  group.set_value("RANKS", size());
  Hash& list = group.at("RANK");
  for (int i = 0; i < size(); ++i) {
    const Member& member = members[static_cast<std::size_t>(i)];
    Hash& details = list.at(std::to_string(i)).at(std::to_string(member.rank));
    details.set_value("HOST", member.host);
    if (member.guest) details.set_value("GUEST", 1);
  }
  return hash;
}

Result<RedundancySet> RedundancySet::from_hash(const Hash& hash) {
  constexpr int kMost = std::numeric_limits<int>::max() - 1;
  RedundancySet set;
  SCR_ASSIGN_OR_RETURN(const std::string type, hash.require_value("TYPE"));
  const auto scheme = parse_scheme(type);
  if (!scheme.ok()) return corrupt(std::string(scheme.status().message()));
  set.scheme = *scheme;
  SCR_ASSIGN_OR_RETURN(set.failures, require_int_in(hash, "FAILURES", 0, kMost));
  const Hash* group = hash.get("GROUP");
  const Hash* list = group == nullptr ? nullptr : group->get("RANK");
  if (list == nullptr) return corrupt("a redundancy set has no list of its members");
  SCR_ASSIGN_OR_RETURN(set.id, require_int_in(*group, "ID", 0, kMost));
  SCR_ASSIGN_OR_RETURN(const int size, require_int_in(*group, "RANKS", 1, kMost));
  if (list->size() != static_cast<std::size_t>(size)) {
    return corrupt(fmt::format("a redundancy set of {} members lists {}", size, list->size()));
  }
  for (int i = 0; i < size; ++i) {
    SCR_ASSIGN_OR_RETURN(Member member, member_from(*list, i));
    set.members.push_back(std::move(member));
  }
  SCR_RETURN_IF_ERROR(check_failures(set));
  SCR_RETURN_IF_ERROR(check_members(set));
  return set;
}

}  // namespace scr::redundancy
