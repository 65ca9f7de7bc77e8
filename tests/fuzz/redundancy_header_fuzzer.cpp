// Fuzzes headers of redundancy files behind their checksum: what is accepted lists files that can
// be opened below a directory, is about members of its own set, makes a plan with every loss that
// the set bears, and comes back from its own hash.
#include <cstdlib>

#include "core/base/path.hpp"
#include "redundancy/header.hpp"
#include "redundancy/plan.hpp"

namespace {

using scr::redundancy::RedundancyHeader;

std::vector<std::uint64_t> check_members(const RedundancyHeader& header) {
  std::vector<std::uint64_t> totals(static_cast<std::size_t>(header.set.size()));
  if (header.members.empty() || header.members.front().index != header.index) std::abort();
  for (const auto& member : header.members) {
    if (member.index < 0 || member.index >= header.set.size()) std::abort();
    if (!keeps_metadata(header.set, header.index, member.index)) std::abort();
    for (const auto& file : member.files) {
      if (!scr::safe_relative_path(file.file).ok() || !file.crc) std::abort();
    }
    totals[static_cast<std::size_t>(member.index)] = total_size(member).value();
  }
  return totals;
}

void check_plans(const RedundancyHeader& header, const std::vector<std::uint64_t>& totals) {
  constexpr int kLargestSet = 16;  // more would only take time
  if (header.set.size() > kLargestSet) return;
  (void)plan_encode(header.set, totals);
  for (std::size_t i = 0; i < totals.size(); ++i) {
    std::vector<bool> lost(totals.size());
    lost[i] = true;
    if (is_bearable(header.set, lost)) (void)plan_rebuild(header.set, totals, lost, true);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  const auto header = RedundancyHeader::from_hash(*hash);
  if (!header.ok()) return 0;
  const auto totals = check_members(*header);
  check_plans(*header, totals);
  (void)header->payload_size();
  const scr::Hash written = header->to_hash();
  const auto again = RedundancyHeader::from_hash(written);
  if (!again.ok() || !(again->to_hash() == written)) std::abort();
  return 0;
}
