// Home: the node that knows which bytes of a part of a shared file are where.
//
// A file is divided into stripes, and each stripe has a home among the nodes of the run. A process
// that has written tells the homes, which number what they are told: of two writes to the same
// bytes the one that was told later holds. Who reads asks the homes first. The home of stripe 0
// also knows the size of the file, its shared pointer and its lock. A home keeps nothing on disk:
// it dies with the run, and so do files that are not sealed; those that are tell what they hold at
// the start of the next run.
//
// Every home is told of a file when it is made, also those that no bytes come to: bytes that a home
// does not know are holes, so a home that does not know the file must say so.
//
// A name has one home, too, which knows who has the file of that name open for writing.
//
// The service sends a request again if the connection breaks before the answer is there, so what
// changes something carries an identity, and a home does it once.
//
// Wire format: docs/formats/shared-file.md. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/status.hpp"
#include "core/shared_file/extent_map.hpp"
#include "core/shared_file/shared_file.hpp"
#include "core/shared_file/wire.hpp"

namespace scr::shared_file {

inline constexpr std::uint64_t kStripeSize = std::uint64_t{16} << 20U;

// The log of one process.
struct LogPlace {
  std::uint32_t rank = 0;
  std::uint32_t node = 0;
  std::uint64_t id = 0;  // of the range service
  bool operator==(const LogPlace&) const = default;
};

// Where bytes of the file are; no log: nobody has written them.
struct Location {
  Range range;
  std::uint64_t log_offset = 0;
  std::optional<LogPlace> log;
};

// What a file costs its homes.
struct IndexCost {
  std::uint64_t extents = 0;
  std::uint64_t bytes = 0;  // of memory, about
};

// Of a request: who sends it and which one it is. Sequence 0: it may be done twice.
struct RequestIdentity {
  std::uint64_t client = 0;
  std::uint64_t sequence = 0;
};

class Home {
 public:
  // Answers a request made by Homes.
  Result<Bytes> handle(ByteView request);
  std::size_t files() const;

 private:
  struct FileState {
    ExtentMap extents;
    std::map<std::uint32_t, LogPlace> logs;  // by rank
    std::uint64_t epoch = 0;
    std::uint64_t size = 0;
    std::uint64_t pointer = 0;
    std::uint64_t lock_owner = 0;
  };
  struct Claim {
    std::uint64_t owner = 0;
    std::uint64_t times = 0;
  };
  struct Done {
    std::uint64_t sequence = 0;
    Bytes answer;
  };
  // `op` is the first byte of the request.
  Result<Bytes> perform(std::uint8_t op, std::uint64_t id, WireReader& in);
  Result<Bytes> perform(std::uint8_t op, FileState& file, WireReader& in);
  // The answer that was given to the request already.
  const Bytes* answer_given(const RequestIdentity& identity) const;
  void remember(const RequestIdentity& identity, const Bytes& answer);
  Result<Bytes> create(std::uint64_t id, WireReader& in);
  Result<Bytes> claim(std::uint64_t owner, ByteView name);
  Result<Bytes> release(std::uint64_t owner, ByteView name);
  Result<Bytes> enter(FileState& file, WireReader& in, bool with_stamps);
  static Result<Bytes> look_up(FileState& file, WireReader& in);
  static Result<Bytes> list(FileState& file, WireReader& in);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, FileState> files_;
  std::map<std::string, Claim> claims_;
  std::map<std::uint64_t, std::vector<Done>> done_;  // the last ones of each client
};

// The homes of all nodes, as a process sees them.
class Homes {
 public:
  struct Message {
    int node = 0;
    Bytes request;
  };
  // Takes messages to the homes and brings the answers, in their order.
  using Transport = std::function<std::vector<Result<Bytes>>(std::vector<Message>)>;
  Homes(int nodes, Transport transport);

  // Tells all homes of a file, which has nothing but a size. One that is known is left as it is.
  Status create(std::uint64_t file, std::uint64_t size) const;
  // Tells of writes, the later ones last. `size`: the file reaches at least to there.
  Status enter(std::uint64_t file, const LogPlace& log, std::span<const Extent> extents,
               std::uint64_t size) const;
  // Tells of writes of an earlier run, with their stamps; the homes need not know the file yet.
  Status restore(std::uint64_t file, const LogPlace& log, std::span<const Extent> extents,
                 std::uint64_t size) const;
  // In the order of the ranges, without gaps.
  Result<std::vector<Location>> look_up(std::uint64_t file, std::span<const Range> ranges) const;
  // The same, and how long the file is, asked for at the same time.
  struct Found {
    std::vector<Location> locations;
    std::uint64_t size = 0;
  };
  Result<Found> look_up_with_size(std::uint64_t file, std::span<const Range> ranges) const;
  // What of a rank's writes holds, among the stripes of these nodes; by offset.
  Result<std::vector<Extent>> list(std::uint64_t file, std::uint32_t rank,
                                   std::span<const int> nodes) const;
  Result<std::uint64_t> size(std::uint64_t file) const;
  // For one process while the others wait.
  Status truncate(std::uint64_t file, std::uint64_t size) const;
  Status drop(std::uint64_t file) const;
  Result<IndexCost> cost(std::uint64_t file) const;

  Result<std::uint64_t> add_to_pointer(std::uint64_t file, std::uint64_t by) const;
  Status set_pointer(std::uint64_t file, std::uint64_t to) const;
  // False if somebody else has it. `owner` is not 0.
  Result<bool> try_lock(std::uint64_t file, std::uint64_t owner) const;
  Status unlock(std::uint64_t file, std::uint64_t owner) const;

  // Of several that want to write a file of this name, one has it, until it has released it as
  // often as it has claimed it. False: somebody else has it. `owner` is not 0.
  Result<bool> claim(const std::string& name, std::uint64_t owner) const;
  Status release(const std::string& name, std::uint64_t owner) const;

  int nodes() const { return nodes_; }
  int home_of(std::uint64_t file, std::uint64_t offset) const {
    return static_cast<int>((file + offset / kStripeSize) % static_cast<std::uint64_t>(nodes_));
  }

 private:
  RequestIdentity next_identity() const { return {client_, ++sequence_}; }
  Result<Bytes> ask(int node, Bytes request) const;
  Result<std::vector<Bytes>> ask_all(const Bytes& request) const;
  int home_of_name(const std::string& name) const;
  Status enter(std::uint64_t file, const LogPlace& log, std::span<const Extent> extents,
               std::uint64_t size, bool with_stamps) const;
  struct Share;
  Status ask_shares(std::uint64_t file, std::map<int, Share>& shares, std::uint64_t* size) const;
  Result<std::vector<Location>> look_up(std::uint64_t file, std::span<const Range> ranges,
                                        std::uint64_t* size) const;

  int nodes_;
  Transport transport_;
  std::uint64_t client_;  // no other process has the same number
  mutable std::atomic<std::uint64_t> sequence_ = 0;
};

}  // namespace scr::shared_file
