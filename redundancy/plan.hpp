// Plans: which bytes of which members an encode or a rebuild combines into which others.
//
// Every process of a set makes the same plan from the same few numbers, so all know who sends what
// to whom without a word. A plan is a list of stripes; the stripe engine (pass.hpp) carries it out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "redundancy/combination.hpp"
#include "redundancy/scheme.hpp"

namespace scr::redundancy {

// The application's files of a member, laid end to end, or what follows the header of its
// redundancy file.
enum class Region { kFiles, kPayload };

// A run of bytes of a member, `length` long: in a stripe that is longer, zeros follow.
struct Slot {
  int member = 0;
  Region region = Region::kFiles;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  // How many of the bytes [from, from+count) of the stripe are real.
  std::size_t real(std::uint64_t from, std::size_t count) const {
    if (from >= length) return 0;
    return static_cast<std::size_t>(std::min<std::uint64_t>(count, length - from));
  }
};

struct Stripe {
  std::uint64_t length = 0;
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  std::vector<Slot> checked;  // only read, for their checksum
  std::vector<int> heads;     // members that compute the outputs, in turn from piece to piece
  Combination combination;
};

using Plan = std::vector<Stripe>;

// Bytes of the payload of a member's redundancy file. `totals` are the bytes of the files of each
// member.
std::uint64_t payload_size(const RedundancySet& set, const std::vector<std::uint64_t>& totals,
                           int member);
// CHUNK in the header: one parity chunk; for PARTNER the whole payload.
std::uint64_t header_chunk(const RedundancySet& set, const std::vector<std::uint64_t>& totals,
                           int member);

Plan plan_encode(const RedundancySet& set, const std::vector<std::uint64_t>& totals);

// `lost` has one entry a member and must be bearable. With `read_all`, files that no lost member
// needs are read as well, to verify them. Survivors are read whole or not at all.
Plan plan_rebuild(const RedundancySet& set, const std::vector<std::uint64_t>& totals,
                  const std::vector<bool>& lost, bool read_all);

// Can these losses be made good?
bool is_bearable(const RedundancySet& set, const std::vector<bool>& lost);

}  // namespace scr::redundancy
