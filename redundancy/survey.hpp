// A survey: what the processes of a set tell each other before a rebuild, and what follows from it.
//
// Everyone says which of its members are whole, why the others are not, and what the headers of the
// whole ones hold. The result is the same on all processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "redundancy/peers.hpp"
#include "redundancy/redundancy.hpp"

namespace scr::redundancy {

// A member hosted here, as this process sees it. Exactly one of the two is set; for SINGLE, which
// has no headers, `header` holds only what the caller knows.
struct Inspected {
  int index = 0;
  std::optional<RedundancyHeader> header;
  std::string damage;       // why it counts as lost
  bool unreadable = false;  // it may be whole, but could not be read
};

struct Survey {
  std::vector<bool> lost;
  std::vector<std::string> reasons;  // of the lost ones
  bool any_unreadable = false;       // of the lost ones
  DatasetDescriptor dataset;         // id 0 if no header is left
  std::vector<std::optional<MemberFiles>> metadata;
  std::vector<std::uint64_t> totals;

  bool any_lost() const;
  // The header of a lost member's new redundancy file; its payload's checksum is not known yet.
  RedundancyHeader header_for(const RedundancySet& set, int index) const;
  // "rank 1 (on node1): its files are missing; rank 2 (on node2): ..."
  std::string describe_losses(const RedundancySet& set) const;
};

// kUnrecoverable if more is lost than the set bears, kIoError if some of that only could not be
// read, kCorrupt if survivors contradict each other.
Result<Survey> survey(Peers& peers, const RedundancySet& set, const std::vector<Inspected>& mine);

// Looks at a member hosted here: opens its header and compares it with what the caller knows.
Inspected inspect(FileSystem& fs, const RedundancySet& set, const HostedMember& member);
Inspected lost_member(int index, const Status& why);

}  // namespace scr::redundancy
