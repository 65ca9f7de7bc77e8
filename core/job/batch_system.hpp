// The batch system that a job runs under, as far as its variables and commands tell: Slurm, PBS,
// LSF, Flux, or none.
//
// What it says (nodes, end of the job, nodes that are down) is asked when it is needed, since it
// may take a call of squeue or the like. Not thread-safe to change; free of MPI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/config.hpp"
#include "core/base/filesystem.hpp"
#include "core/job/host_list.hpp"

namespace scr::job {

enum class BatchSystem { kNone, kSlurm, kPbs, kLsf, kFlux };

// "none", "Slurm", "PBS", "LSF", "Flux".
std::string_view batch_system_name(BatchSystem system);

BatchSystem detect_batch_system(const config::Environment& environment);

// Each node of the job once: SCR_NODELIST, else what the batch system says, else (none) this host.
Result<Hosts> job_nodes(FileSystem& fs, const config::Config& config,
                        const config::Environment& environment);

// End of the job in seconds since the epoch, or nothing if it has none or nobody knows:
// SCR_END_TIME, else what the batch system says.
std::optional<std::int64_t> job_end_time(const config::Config& config,
                                         const config::Environment& environment);

// Those of `nodes` that the batch system takes for down. A batch system that does not answer knows
// of none: a node is then found by the other tests.
Hosts nodes_known_as_down(const config::Environment& environment, const Hosts& nodes);

}  // namespace scr::job
