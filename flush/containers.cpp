#include "flush/containers.hpp"

#include <algorithm>

#include "core/base/checksum.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr::flush {

std::string container_name(std::uint64_t index) { return "ctr." + std::to_string(index) + ".scr"; }

std::string parity_container_name(std::uint64_t index) {
  return "ctr.parity." + std::to_string(index) + ".scr";
}

std::optional<std::uint64_t> container_index(std::string_view name) {
  constexpr std::string_view kStart = "ctr.";
  constexpr std::string_view kEnd = ".scr";
  if (name.size() <= kStart.size() + kEnd.size()) return std::nullopt;
  const auto index =
      text::parse_uint(name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size()));
  return index && container_name(*index) == name ? index : std::nullopt;
}

std::uint64_t stream_offset(const Segment& segment, std::uint64_t container_size) {
  return container_index(segment.file).value_or(0) * container_size + segment.offset;
}

std::vector<Segment> place_in_containers(std::uint64_t offset, std::uint64_t size,
                                         std::uint64_t container_size) {
  std::vector<Segment> segments;
  while (size > 0) {
    Segment segment;
    segment.file = container_name(offset / container_size);
    segment.offset = offset % container_size;
    segment.length = std::min(size, container_size - segment.offset);
    offset += segment.length;
    size -= segment.length;
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::uint64_t offset_in_stream(Communicator& world, Communicator& node, std::uint64_t bytes) {
  const std::uint64_t node_total = node.all_reduce(bytes, ReduceOp::kSum);
  auto leaders = world.split(node.rank() == 0 ? 0 : Communicator::kNoColor, world.rank());
  std::uint64_t node_offset = leaders ? leaders->exclusive_scan_sum(node_total) : 0;
  node_offset = node.all_reduce(node_offset, ReduceOp::kMax);
  return node_offset + node.exclusive_scan_sum(bytes);
}

Hash segments_to_hash(const std::vector<Segment>& segments) {
  Hash hash;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    Hash& entry = hash.at(std::to_string(i));
    entry.set_value("FILE", segments[i].file);
    entry.set_value("OFFSET", segments[i].offset);
    entry.set_value("LENGTH", segments[i].length);
    entry.set_value("CRC", crc32_to_text(segments[i].crc));
  }
  return hash;
}

namespace {

Result<Segment> segment_from_hash(const Hash& hash) {
  Segment segment;
  SCR_ASSIGN_OR_RETURN(std::string file, hash.require_value("FILE"));
  SCR_ASSIGN_OR_RETURN(segment.file, safe_relative_path(file));
  SCR_ASSIGN_OR_RETURN(segment.offset, hash.require_uint("OFFSET"));
  SCR_ASSIGN_OR_RETURN(segment.length, hash.require_uint("LENGTH"));
  SCR_ASSIGN_OR_RETURN(std::string crc, hash.require_value("CRC"));
  SCR_ASSIGN_OR_RETURN(segment.crc, crc32_from_text(crc));
  return segment;
}

}  // namespace

Result<std::vector<Segment>> segments_from_hash(const Hash& hash, std::uint64_t size) {
  std::vector<Segment> segments;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const Hash* entry = hash.get(std::to_string(i));
    if (entry == nullptr) return corrupt("the list of segments has a gap at " + std::to_string(i));
    SCR_ASSIGN_OR_RETURN(Segment segment, segment_from_hash(*entry));
    if (segment.length > size - total || segment.offset + segment.length < segment.offset) {
      return corrupt("segment " + std::to_string(i) + " is longer than its file");
    }
    total += segment.length;
    segments.push_back(std::move(segment));
  }
  if (total != size) {
    return corrupt("the segments hold " + std::to_string(total) + " bytes of a file of " +
                   std::to_string(size));
  }
  return segments;
}

}  // namespace scr::flush
