// A pass: one process's part in carrying out a plan.
//
// All processes of the set go through the same sequence of steps: piece by piece, and for each
// piece stripe by stripe. In a step, owners of inputs read their piece, add it to its checksum and
// send it to the step's head; the head combines what it gets and passes the results to the owners
// of outputs, which add them to their checksums and write them. Steps overlap: while the results of
// one are computed, the data of the next ones is on its way. Buffers are few and used again and
// again, so they stay in the cache.
//
// Every process knows from the plan what it will be sent, so nothing but data travels; a piece that
// is known to be zeros does not travel at all. A process whose file access fails stays in the
// pattern (zeros go out in place of data, results are dropped) and remembers why; the caller
// exchanges that afterwards.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "core/mpi/communicator.hpp"
#include "redundancy/logical_file.hpp"
#include "redundancy/plan.hpp"

namespace scr::redundancy {

// What a process holds of a member for the time of a pass.
struct LocalMember {
  LocalMember(int member, FileSystem& fs, const Directory& directory)
      : index(member), files(fs, directory), payload(fs, directory) {}

  int index;
  LogicalFile files;
  LogicalFile payload;
  Status status;  // the first failed access; nothing is read or written after it
};

// Tags of this folder's messages (Communicator::kMaxTag is the highest).
inline constexpr int kControlTag = 8192;
inline constexpr int kFirstDataTag = kControlTag + 1;

// Bytes of a piece when the caller does not say. Larger ones cost fewer messages; but a process has
// some six pieces a member in flight, so the memory for them must not grow with the set. Measured:
// with 4 members 256 KiB are one to seven percent faster than 128, with 8 members the two are equal
// and 64 KiB slower.
constexpr std::size_t default_piece_size(int members) {
  constexpr std::size_t kOfAllMembers = 1024UL * 1024;
  return std::clamp<std::size_t>(kOfAllMembers / static_cast<std::size_t>(members), 64UL * 1024,
                                 256UL * 1024);
}

// `hosts[i]` is the rank in `comm` of the process that holds member i; `mine` are the members held
// here. Collective over these processes, with equal plans and piece sizes.
void run_pass(Communicator& comm, const std::vector<int>& hosts, const Plan& plan,
              std::span<LocalMember> mine, std::size_t piece_size,
              const std::function<void(std::uint64_t)>& progress = nullptr);

}  // namespace scr::redundancy
