// Parity containers: redundancy for containers in the prefix directory (SCR_CONTAINER_PARITY).
//
// Containers have equal size, so parity is computed across them: groups of up to kGroupSize
// containers, k parity containers each (XOR for k = 1, Reed-Solomon else). Up to k lost or damaged
// containers of a group are rebuilt. A short last container counts as filled with zeros.
#pragma once

#include <string>
#include <vector>

#include "core/mpi/communicator.hpp"
#include "flush/rank2file.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

inline constexpr std::uint64_t kGroupSize = 32;
// A repair holds the lock `.scr/repair.lock`, and works on `.scr/.repair.tmp.*`.
inline constexpr std::string_view kRepairLock = "repair";

// Number of parity containers of a dataset.
std::uint64_t parity_container_count(const Summary& summary);
// Bytes of a container, and of a parity container.
std::uint64_t container_length(const Summary& summary, std::uint64_t index);
std::uint64_t parity_container_length(const Summary& summary, std::uint64_t index);

// Collective; the ranks share the work by windows. Returns the checksum of each parity container.
// `data` and `parity` are the paths of all containers.
Result<std::vector<std::uint32_t>> write_parity_containers(Communicator& world, FileSystem& fs,
                                                           const Summary& summary,
                                                           const std::vector<std::string>& data,
                                                           const std::vector<std::string>& parity);

// Reads the parity containers of a dataset and adds what is wrong with them to `problems`.
Status verify_parity_containers(FileSystem& fs, const std::string& directory,
                                const Summary& summary, std::vector<std::string>& problems);

// One process: verifies every container of a dataset, data against the checksums of its segments
// and parity against its own, and rebuilds those that are missing or damaged, if parity allows.
// Names what it repaired; parity that cannot be rebuilt is a warning. kUnrecoverable if more data
// is lost than parity bears; kCorrupt if there is no parity.
Result<std::vector<std::string>> repair_containers(FileSystem& fs, const std::string& directory);

}  // namespace scr::flush
