// Containers: many files in few, as SCR had them. The files of a dataset form one long stream, node
// after node; it is cut into containers of equal size, so a file is a list of segments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.hpp"
#include "core/mpi/communicator.hpp"

namespace scr::flush {

struct Segment {
  std::string file;  // container, relative to the dataset directory in the prefix
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t crc = 0;  // of these bytes
  bool operator==(const Segment&) const = default;
};

std::string container_name(std::uint64_t index);         // ctr.<index>.scr
std::string parity_container_name(std::uint64_t index);  // ctr.parity.<index>.scr
// The index, if it is the name of a container with data.
std::optional<std::uint64_t> container_index(std::string_view name);
// Where a segment begins in the stream. Its file must be a container.
std::uint64_t stream_offset(const Segment& segment, std::uint64_t container_size);

// The segments of a file of `size` bytes that starts at `offset` in the stream. An empty file has
// none.
std::vector<Segment> place_in_containers(std::uint64_t offset, std::uint64_t size,
                                         std::uint64_t container_size);

// Collective: where the `bytes` of this rank start in the stream of all ranks, node after node: a
// sum over each node, a scan over the nodes, a scan within the node.
std::uint64_t offset_in_stream(Communicator& world, Communicator& node, std::uint64_t bytes);

// Under the key SEG: 0, 1, ... -> FILE, OFFSET, LENGTH, CRC.
Hash segments_to_hash(const std::vector<Segment>& segments);
// Refuses names that leave the dataset directory, and segments whose lengths do not add up to
// `size`.
Result<std::vector<Segment>> segments_from_hash(const Hash& hash, std::uint64_t size);

}  // namespace scr::flush
