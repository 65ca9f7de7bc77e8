// Communicator: how code of h5scr talks to the other ranks, without naming MPI.
//
// Three versions: MpiCommunicator (mpi_communicator.hpp, in libscr), SingleCommunicator (one
// process, for serial programs and commands) and InProcessWorld (many ranks as threads of one
// process, for tests). Unless a function says otherwise it is collective over the communicator and
// blocks; all ranks must call the same functions in the same order. A communicator is used by one
// thread at a time. A failed MPI call ends the program (MPI_ERRORS_ARE_FATAL on our duplicate):
// after one, no state of the communicator could be trusted; so these functions return no Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/status.hpp"

namespace scr {

// A started send or receive. Wait for it before the buffer is touched again or destroyed; the
// destructor waits too. wait() and test() throw only in the versions without MPI, where they report
// a mistake of the program (a deadlock, a message of the wrong length).
class Request {
 public:
  class State {
   public:
    virtual ~State() = default;  // gives up what is not complete: no buffer is touched after it
    virtual void wait() = 0;
    virtual bool test() = 0;
  };
  Request() = default;  // complete
  explicit Request(std::unique_ptr<State> state) : state_(std::move(state)) {}
  ~Request() { finish(); }
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      finish();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  void wait() {
    if (state_) state_->wait();
    state_.reset();
  }
  // True once complete; does not block.
  bool test() {
    if (state_ && state_->test()) state_.reset();
    return state_ == nullptr;
  }

 private:
  void finish() noexcept {
    try {
      wait();
    } catch (...) {
      // The failure is known to the world of ranks that threw it; here it would end the program.
      state_.reset();
    }
  }

  std::unique_ptr<State> state_;
};

enum class ReduceOp { kSum, kMin, kMax };

struct RankMessage {
  int rank = 0;  // destination when sent, source when received
  std::vector<std::byte> data;
};

class Communicator {
 public:
  // split() with this colour gives no communicator (nullptr).
  static constexpr int kNoColor = -1;
  // Tags of callers are 0 to kMaxTag; those above are for the functions of this header. (MPI
  // promises tags up to 32767.)
  static constexpr int kMaxTag = 16383;

  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // --- point to point (not collective); any length, also above 2 GiB -----------------------------
  // May wait until the receiver takes the message: two ranks that send to each other, and a rank
  // that sends to itself, must use start_send or start_receive. Messages of one rank with one tag
  // arrive in the order they were sent.
  virtual void send(std::span<const std::byte> data, int to, int tag) = 0;
  // The message must have exactly the length of the buffer.
  virtual void receive(std::span<std::byte> buffer, int from, int tag) = 0;
  virtual Request start_send(std::span<const std::byte> data, int to, int tag) = 0;
  virtual Request start_receive(std::span<std::byte> buffer, int from, int tag) = 0;

  // --- collective --------------------------------------------------------------------------------
  virtual void barrier() = 0;
  virtual void broadcast(std::span<std::byte> buffer, int root) = 0;
  // Element by element, in place; every rank gets the result.
  virtual void all_reduce(std::span<std::int64_t> values, ReduceOp op) = 0;
  virtual void all_reduce(std::span<std::uint64_t> values, ReduceOp op) = 0;
  virtual void all_reduce(std::span<double> values, ReduceOp op) = 0;
  // Over the ranks before this one; rank 0 gets 0 (for kMin the largest number).
  virtual std::uint64_t exclusive_scan(std::uint64_t value, ReduceOp op) = 0;
  // Blocks of equal size, in the order of ranks; gather gives an empty vector on ranks other than
  // root.
  virtual std::vector<std::byte> gather(std::span<const std::byte> block, int root) = 0;
  virtual std::vector<std::byte> all_gather(std::span<const std::byte> block) = 0;
  // Each rank sends messages to ranks of its choice, itself included; nobody knows beforehand who
  // sends to it. Costs messages only for the pairs that talk (plus a logarithmic consensus), no
  // memory per rank. At most one message a destination. Received messages come sorted by source.
  virtual std::vector<RankMessage> sparse_exchange(std::vector<RankMessage> messages) = 0;
  // Ranks of one colour (0 or more, or kNoColor) come together, ordered by key, then by rank.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  virtual std::unique_ptr<Communicator> duplicate() = 0;

  // A barrier at the start of a call of the program, where ranks may be missing because the program
  // does not call it on all of them. Ranks that wait long are named in a warning; if it takes too
  // long the run is ended with a message. Only the MPI version does so.
  struct Meeting {
    std::string what;          // "the start of a dataset"
    double warn_after = 0;     // seconds, and between warnings; 0: never
    double give_up_after = 0;  // seconds; 0: never
  };
  virtual void meet(const Meeting& /*meeting*/) { barrier(); }

  // --- built from the above ----------------------------------------------------------------------
  std::int64_t all_reduce(std::int64_t value, ReduceOp op);
  std::uint64_t all_reduce(std::uint64_t value, ReduceOp op);
  std::uint64_t exclusive_scan_sum(std::uint64_t value);
  bool all_true(bool value);  // logical and over all ranks
  bool any_true(bool value);  // logical or
  std::string broadcast_string(std::string text, int root);
};

// --- hashes between ranks (SCR manual §3.2.7); received hashes are merged into the given one
// A hash that does not unpack is kCorrupt; a wire error of that kind is a bug, but never a crash.
// If the sender's hash cannot be packed, the receiver gets an error too and does not hang.
Status send_hash(Communicator& comm, const Hash& hash, int to);
Status receive_hash(Communicator& comm, Hash& hash, int from);
Status send_receive_hash(Communicator& comm, const Hash& send, int to, Hash& receive, int from);
Status broadcast_hash(Communicator& comm, Hash& hash, int root);
// `send` has ranks as keys and the hash for each below; `receive` gets the same form, by source. A
// rank whose `send` is not of that form gets an error and sends nothing; the others do not notice.
Status exchange_hashes(Communicator& comm, const Hash& send, Hash& receive);

// --- agreement -----------------------------------------------------------------------------------
// Collective: ok if every rank is. Else a rank that failed keeps its own status; the others get the
// code and message of the first that failed, after "<what> failed on rank <r>: ".
Status agree_all(Communicator& comm, const Status& mine, std::string_view what);

// --- groups --------------------------------------------------------------------------------------
// Splits by a string (host name, power supply): ranks with equal strings come together, ordered by
// rank. No rank sees all names. A rank whose left neighbour has the same name stays out of the
// search; the others (one per run of equal names) meet at the rank that a checksum of the name
// picks. So time and memory of a rank grow with the logarithm of the ranks and with the number of
// runs of one name: one per node for ranks placed by blocks, ranks per node for ranks placed in
// turn.
struct StringGroups {
  int group_count = 0;  // distinct strings
  int group_id = 0;     // 0.. in the order of each group's lowest rank
};
StringGroups group_by_string(Communicator& comm, std::string_view name);
std::unique_ptr<Communicator> split_by_string(Communicator& comm, std::string_view name);

// The communicators every part of the runtime uses: all ranks of this node, and all ranks with the
// same rank within their node (SCR's scr_comm_node, scr_comm_node_across), both ordered by rank.
struct NodeCommunicators {
  std::unique_ptr<Communicator> node;
  std::unique_ptr<Communicator> across;
  int node_count = 0;
  int node_id = 0;
};
NodeCommunicators make_node_communicators(Communicator& world, std::string_view host_name);

}  // namespace scr
