// Peers: small messages among the processes that host the members of one redundancy set.
//
// Each exchange is a meeting of these processes and of nobody else: everyone tells everyone
// something.
#pragma once

#include <functional>
#include <vector>

#include "core/base/hash.hpp"
#include "core/mpi/communicator.hpp"

namespace scr::redundancy {

class Peers {
 public:
  // `hosts[i]` is the rank in `comm` of the process that hosts member i; this process is one of
  // them.
  Peers(Communicator& comm, const std::vector<int>& hosts);

  // Ranks of the processes, each once, in ascending order.
  const std::vector<int>& processes() const { return processes_; }

  // Sends message(i) to processes()[i] (also to this one) and returns what each of them sent here.
  // What does not unpack is a bug; it arrives as a failure of that process (see exchange_status).
  std::vector<Hash> exchange(const std::function<Hash(std::size_t)>& message);

  // Everyone brings a status. Ok if all are; else this process's own failure if it has one, or the
  // first one of the others, with the rank where it happened.
  Status exchange_status(const Status& mine);

  // The same for a status that came along as kFailureKey in the messages of an exchange: the first
  // failure.
  Status first_failure(const std::vector<Hash>& messages) const;

 private:
  Hash receive_from(int process);

  Communicator& comm_;
  std::vector<int> processes_;
};

// Where a message holds the sender's failure, if it has one.
inline constexpr std::string_view kFailureKey = "FAILURE";

// How a failure travels in a message: an empty hash is ok.
Hash status_to_hash(const Status& status);
Status status_from_hash(const Hash& hash);

}  // namespace scr::redundancy
