// Redundancy schemes and sets: who protects whom.
//
// A redundancy set is an ordered ring of members from different failure groups. Each member is a
// rank of the run that wrote the dataset (an "old" rank, which another process may host later). A
// *guest* is a rank that joins a set of others only to store redundancy data, with no files of its
// own in it: this is how a rank is protected whose node has more ranks than all the others.
#pragma once

#include <string>
#include <vector>

#include "core/base/file_meta.hpp"
#include "core/base/hash.hpp"

namespace scr::redundancy {

enum class Scheme { kSingle, kPartner, kXor, kReedSolomon };

std::string_view scheme_name(Scheme scheme);  // SINGLE, PARTNER, XOR, RS
Result<Scheme> parse_scheme(std::string_view name);
FileType redundancy_file_type(Scheme scheme);

// A code word over bytes has at most this many positions.
inline constexpr int kMostReedSolomonMembers = 256;

struct Member {
  int rank = 0;      // rank in the run that wrote the dataset
  std::string host;  // where it ran then, for messages
  bool guest = false;
  bool operator==(const Member&) const = default;
};

struct RedundancySet {
  Scheme scheme = Scheme::kSingle;
  int id = 0;        // lowest rank of the members that are not guests
  int failures = 0;  // members that may be lost: 0 SINGLE, 1 PARTNER and XOR, k RS
  std::vector<Member> members;

  int size() const { return static_cast<int>(members.size()); }
  int left_of(int index) const { return (index + size() - 1) % size(); }
  int right_of(int index) const { return (index + 1) % size(); }
  // Index of the member with this rank, or -1.
  int index_of(int rank) const;
  // "<index+1>_of_<size>_in_<id>.xor" (.rs, .partner); empty for SINGLE.
  std::string file_name(int index) const;

  Hash to_hash() const;
  static Result<RedundancySet> from_hash(const Hash& hash);
  bool operator==(const RedundancySet&) const = default;
};

}  // namespace scr::redundancy
