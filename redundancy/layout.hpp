// Where the chunks of a striped scheme (XOR, RS) lie.
//
// N members, k parities. A member's files are laid end to end and padded with zeros to N-k chunks.
// There are N stripes; in stripe s the members, in ring order from member s on, hold the k parity
// chunks and then the N-k data chunks of one code word:
//
//     N=4, k=1   stripe 0  1  2  3          N=4, k=2   stripe 0  1  2  3
//     member 0          P  d0 d1 d2         member 0          P0 d0 d1 P1
//     member 1          d0 P  d1 d2         member 1          P1 P0 d0 d1
//     member 2          d0 d1 P  d2         member 2          d0 P1 P0 d1
//     member 3          d0 d1 d2 P          member 3          d0 d1 P1 P0
//
// For k=1 this is the layout of the SCR manual §7.3.1 (the zero-padded chunk of member r is in
// stripe r).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace scr::redundancy {

struct Layout {
  int members = 0;
  int parities = 0;
  std::uint64_t chunk = 0;

  // Place of a member in the code word of a stripe: parity 0..k-1, then data.
  int position(int member, int stripe) const { return (member - stripe + members) % members; }
  int member_at(int position, int stripe) const { return (stripe + position) % members; }
  bool holds_parity(int member, int stripe) const { return position(member, stripe) < parities; }

  // Of the data chunk in the member's files, or of the parity chunk in its redundancy file's
  // payload.
  std::uint64_t offset(int member, int stripe) const {
    const int place = position(member, stripe);
    if (place < parities) return chunk * static_cast<std::uint64_t>(place);
    std::uint64_t before = 0;
    for (int s = 0; s < stripe; ++s) before += holds_parity(member, s) ? 0 : 1;
    return chunk * before;
  }
};

// The smallest chunk with which the largest member fits into N-k of them.
inline std::uint64_t chunk_size(std::span<const std::uint64_t> totals, int parities) {
  const auto chunks = totals.size() - static_cast<std::size_t>(parities);
  const std::uint64_t most = std::ranges::max(totals);
  return most / chunks + (most % chunks != 0 ? 1 : 0);
}

}  // namespace scr::redundancy
