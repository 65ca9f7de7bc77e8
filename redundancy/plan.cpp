#include "redundancy/plan.hpp"

#include <numeric>

#include "redundancy/layout.hpp"

namespace scr::redundancy {
namespace {

using Totals = std::vector<std::uint64_t>;

std::size_t index(int member) { return static_cast<std::size_t>(member); }

Layout layout_of(const RedundancySet& set, const Totals& totals) {
  return {set.size(), set.failures, chunk_size(totals, set.failures)};
}

Slot slot_of(const Layout& layout, const Totals& totals, int member, int stripe) {
  const std::uint64_t offset = layout.offset(member, stripe);
  if (layout.holds_parity(member, stripe)) return {member, Region::kPayload, offset, layout.chunk};
  const std::uint64_t total = totals[index(member)];
  return {member, Region::kFiles, offset,
          total <= offset ? 0 : std::min(layout.chunk, total - offset)};
}

// A stripe that gives the chunks at positions `wanted` from those at `given`.
Stripe code_word(const RedundancySet& set, const Totals& totals, int stripe,
                 const std::vector<int>& given, const std::vector<int>& wanted) {
  const Layout layout = layout_of(set, totals);
  Stripe result;
  result.length = layout.chunk;
  for (const int position : given) {
    result.inputs.push_back(slot_of(layout, totals, layout.member_at(position, stripe), stripe));
  }
  for (const int position : wanted) {
    result.outputs.push_back(slot_of(layout, totals, layout.member_at(position, stripe), stripe));
  }
  result.combination =
      make_combination(set.size(), set.failures, set.scheme == Scheme::kXor, given, wanted);
  return result;
}

Stripe copy(Slot from, Slot to) {
  Stripe stripe;
  stripe.length = from.length;
  stripe.inputs = {from};
  stripe.outputs = {to};
  stripe.heads = {to.member};
  stripe.combination = Combination(1, {1});
  return stripe;
}

Stripe check(Slot slot) {
  Stripe stripe;
  stripe.length = slot.length;
  stripe.checked = {slot};
  return stripe;
}

Slot files_of(const Totals& totals, int member) {
  return {member, Region::kFiles, 0, totals[index(member)]};
}

// The payload of a partner file is the files of the left neighbour.
Slot partner_payload_of(const RedundancySet& set, const Totals& totals, int member) {
  return {member, Region::kPayload, 0, totals[index(set.left_of(member))]};
}

Plan plan_partner_rebuild(const RedundancySet& set, const Totals& totals,
                          const std::vector<bool>& lost, bool read_all) {
  Plan plan;
  for (int i = 0; i < set.size(); ++i) {
    const Slot files = files_of(totals, i);
    const Slot payload = partner_payload_of(set, totals, i);
    const int left = set.left_of(i);
    const int right = set.right_of(i);
    if (lost[index(i)]) {
      plan.push_back(copy(partner_payload_of(set, totals, right), files));
      plan.push_back(copy(files_of(totals, left), payload));
    } else if (read_all) {
      if (!lost[index(right)]) plan.push_back(check(files));
      if (!lost[index(left)]) plan.push_back(check(payload));
    }
  }
  return plan;
}

Stripe plan_stripe_rebuild(const RedundancySet& set, const Totals& totals,
                           const std::vector<bool>& lost, int stripe) {
  const Layout layout = layout_of(set, totals);
  std::vector<int> wanted;
  std::vector<int> given;
  std::vector<Slot> checked;
  const auto enough = static_cast<std::size_t>(set.size() - set.failures);
  const bool any_lost = std::ranges::count(lost, true) != 0;
  for (int i = 0; i < set.size(); ++i) {
    const int position = (i + set.failures) % set.size();  // data first: it may be shorter
    const int member = layout.member_at(position, stripe);
    if (lost[index(member)]) {
      wanted.push_back(position);
    } else if (any_lost && given.size() < enough) {
      given.push_back(position);
    } else {
      checked.push_back(slot_of(layout, totals, member, stripe));
    }
  }
  Stripe result;
  if (any_lost) result = code_word(set, totals, stripe, given, wanted);
  for (const Slot& input : result.inputs) result.heads.push_back(input.member);
  result.length = layout.chunk;
  result.checked = std::move(checked);
  return result;
}

}  // namespace

std::uint64_t header_chunk(const RedundancySet& set, const Totals& totals, int member) {
  if (set.scheme == Scheme::kPartner) return totals[index(set.left_of(member))];
  return chunk_size(totals, set.failures);
}

std::uint64_t payload_size(const RedundancySet& set, const Totals& totals, int member) {
  const std::uint64_t chunk = header_chunk(set, totals, member);
  return set.scheme == Scheme::kPartner ? chunk : chunk * static_cast<std::uint64_t>(set.failures);
}

Plan plan_encode(const RedundancySet& set, const Totals& totals) {
  Plan plan;
  if (set.scheme == Scheme::kPartner) {
    for (int i = 0; i < set.size(); ++i) {
      const int right = set.right_of(i);
      plan.push_back(copy(files_of(totals, i), partner_payload_of(set, totals, right)));
    }
    return plan;
  }
  std::vector<int> positions(static_cast<std::size_t>(set.size()));
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<int> parity(positions.begin(), positions.begin() + set.failures);
  const std::vector<int> data(positions.begin() + set.failures, positions.end());
  for (int stripe = 0; stripe < set.size(); ++stripe) {
    plan.push_back(code_word(set, totals, stripe, data, parity));
    // One owner of a parity computes them all: N-1 chunks travel, not k(N-k).
    plan.back().heads = {plan.back().outputs.front().member};
  }
  return plan;
}

Plan plan_rebuild(const RedundancySet& set, const Totals& totals, const std::vector<bool>& lost,
                  bool read_all) {
  if (set.scheme == Scheme::kPartner) return plan_partner_rebuild(set, totals, lost, read_all);
  Plan plan;
  for (int stripe = 0; stripe < set.size(); ++stripe) {
    plan.push_back(plan_stripe_rebuild(set, totals, lost, stripe));
  }
  return plan;
}

bool is_bearable(const RedundancySet& set, const std::vector<bool>& lost) {
  const auto count = std::ranges::count(lost, true);
  if (set.scheme != Scheme::kPartner) return count <= set.failures;
  for (int i = 0; i < set.size(); ++i) {
    if (lost[index(i)] && lost[index(set.right_of(i))]) return false;
  }
  return true;
}

}  // namespace scr::redundancy
