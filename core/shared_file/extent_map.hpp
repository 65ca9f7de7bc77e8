// ExtentMap: which bytes of a shared file are where, by the newest write of each byte.
//
// Every rank of a program appends what it writes to its own log; an extent says that some bytes of
// the file are at a place of one log, and carries the stamp of its write. Where extents overlap,
// the later stamp holds; equal stamps of different ranks are writes without an order, of which
// either may win: then the higher rank does, so that all processes see the same. Bytes without
// extent are holes, which read as zero. Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace scr::shared_file {

// When a write happened: `epoch` counts the collective calls on the file, which order writes of
// different ranks; `sequence` the writes of one rank.
struct Stamp {
  std::uint64_t epoch = 0;
  std::uint32_t rank = 0;
  std::uint64_t sequence = 0;
  auto operator<=>(const Stamp&) const = default;
};

struct Extent {
  std::uint64_t offset = 0;  // in the file
  std::uint64_t length = 0;
  std::uint64_t log_offset = 0;  // in the log of rank stamp.rank
  Stamp stamp;

  std::uint64_t end() const { return offset + length; }
  bool operator==(const Extent&) const = default;
};

// Bytes of a range: from a log, or a hole.
struct Piece {
  std::uint64_t offset = 0;  // in the file
  std::uint64_t length = 0;
  std::optional<Extent> source;  // cut to the piece; none: a hole
  bool operator==(const Piece&) const = default;
};

class ExtentMap {
 public:
  // Adds a write; parts that are covered by later ones are dropped.
  void insert(const Extent& extent);
  // The file was cut or extended to `size` at that time: earlier writes beyond it are gone.
  void truncate(std::uint64_t size, const Stamp& stamp);

  // There is nothing at this offset or after it.
  bool is_beyond(std::uint64_t offset) const {
    return extents_.empty() || offset >= extents_.rbegin()->second.end();
  }
  // The bytes of [offset, offset + length), in order, without gaps; the first `most` pieces.
  std::vector<Piece> find(std::uint64_t offset, std::uint64_t length,
                          std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  // Where the file ends: after its last byte, or where it was extended to.
  std::uint64_t size() const;
  std::size_t count() const { return extents_.size(); }
  void for_each(const std::function<void(const Extent&)>& visit) const;
  // Those that begin at `offset` or after, until `visit` says no.
  void visit_from(std::uint64_t offset, const std::function<bool(const Extent&)>& visit) const;
  void clear();

 private:
  using Map = std::map<std::uint64_t, Extent>;  // by offset; they do not overlap
  void put(const Extent& extent);
  Map::const_iterator first_at_or_before(std::uint64_t offset) const;

  Map extents_;
  // Truncations that a late record may still be older than, by stamp.
  std::map<Stamp, std::uint64_t> truncations_;
};

}  // namespace scr::shared_file
