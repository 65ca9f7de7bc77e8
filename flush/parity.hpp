// Parity containers: redundancy for containers in the prefix directory (SCR_CONTAINER_PARITY).
//
// Containers have equal size, so parity is computed across them: groups of up to kGroupSize
// containers, k parity containers each (XOR for k = 1, Reed-Solomon else). Up to k lost or damaged
// containers of a group are rebuilt. A short last container counts as filled with zeros.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/mpi/communicator.hpp"
#include "flush/pacer.hpp"
#include "flush/rank2file.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

inline constexpr std::uint64_t kGroupSize = 32;
// A repair holds the lock `.scr/repair.lock`, and works on `.scr/.repair.tmp.*`.
inline constexpr std::string_view kRepairLock = "repair";

// Containers that share parity containers.
struct ContainerGroup {
  std::uint64_t first = 0;  // container
  int size = 0;
  std::uint64_t first_parity = 0;
};

// Number of parity containers of a dataset.
std::uint64_t parity_container_count(const Summary& summary);
// Bytes of a container, and of a parity container.
std::uint64_t container_length(const Summary& summary, std::uint64_t index);
std::uint64_t parity_container_length(const Summary& summary, std::uint64_t index);

// Makes the parity containers of a dataset: the ranks share the work by windows.
class ParityWriter {
 public:
  // `data` and `parity` are the paths of all containers; the data is there and durable.
  ParityWriter(FileSystem& fs, Summary summary, std::vector<std::string> data,
               std::vector<std::string> parity)
      : fs_(fs), summary_(std::move(summary)), data_(std::move(data)), parity_(std::move(parity)) {}

  // The part of all windows that is one rank's.
  double share_of(int rank, int ranks) const;
  // Not collective, from any thread: computes and writes the share of one of `ranks`, durably.
  // kUnavailable when cancelled. `pacer` may be null.
  Status write_share(int rank, int ranks, Pacer* pacer);
  // Collective, after write_share of each rank with the outcome `written`: the checksum of each
  // parity container, on rank 0.
  Result<std::vector<std::uint32_t>> collect(Communicator& world, const Status& written) const;

 private:
  Status encode_group(const ContainerGroup& group, int rank, int ranks, Pacer* pacer);

  FileSystem& fs_;
  Summary summary_;
  std::vector<std::string> data_;
  std::vector<std::string> parity_;
  // (parity container, window) -> checksum of that window, of this rank's share.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> checksums_;
};

// Reads the parity containers of a dataset and adds what is wrong with them to `problems`.
Status verify_parity_containers(FileSystem& fs, const std::string& directory,
                                const Summary& summary, std::vector<std::string>& problems);

// One process: verifies every container of a dataset, data against the checksums of its segments
// and parity against its own, and rebuilds those that are missing or damaged, if parity allows.
// Names what it repaired; parity that cannot be rebuilt is a warning. kUnrecoverable if more data
// is lost than parity bears; kCorrupt if there is no parity.
Result<std::vector<std::string>> repair_containers(FileSystem& fs, const std::string& directory);

}  // namespace scr::flush
