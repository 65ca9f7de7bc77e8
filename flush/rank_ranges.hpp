// RankRanges: a set of ranks as ranges, for there may be a million of them: "0-3,7".
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace scr::flush {

class RankRanges {
 public:
  RankRanges() = default;
  // Inclusive; 0 <= first <= last.
  void add(int first, int last);
  void add(int rank) { add(rank, rank); }

  bool contains(int rank) const;
  bool empty() const { return ranges_.empty(); }
  std::uint64_t count() const;
  const std::map<int, int>& ranges() const { return ranges_; }  // first to last, none touch

  std::string to_text() const;
  // Digits, '-' and ',' only; ranges upwards. "" is the empty set.
  static Result<RankRanges> from_text(std::string_view text);
  bool operator==(const RankRanges&) const = default;

 private:
  std::map<int, int> ranges_;
};

}  // namespace scr::flush
