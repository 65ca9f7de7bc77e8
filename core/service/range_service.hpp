// The range service: how a process reads bytes of a file in the cache of another node.
//
// One process of a node runs a RangeServer, a background thread that answers to whoever has the
// job's key; every process of the job may open_remote() a file of another node by its id.
// Files are only read, and requests name ids, never paths; calls go to a handler, which keeps what
// the nodes know of shared files (core/shared_file/home.hpp). Wire format and what it defends
// against: docs/formats/range-service.md. No MPI. All functions are thread-safe.
//
// After a fork the child has no server, and files that its parent opened fail; it may open its own.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"
#include "core/base/status.hpp"

namespace scr::service {

// The secret of a job, made by one process and given to all others on a way that nobody else can
// read: broadcast by MPI, or a file of mode 0600. It never crosses the wire of the service.
class Key {
 public:
  static constexpr std::size_t kSize = 32;

  // Random; an error only if the system has no random numbers.
  static Result<Key> make();
  // kInvalidArgument unless there are kSize bytes.
  static Result<Key> from_bytes(std::span<const std::byte> bytes);
  std::span<const std::byte, kSize> bytes() const { return bytes_; }
  bool operator==(const Key& other) const = default;
  auto operator<=>(const Key& other) const = default;

 private:
  Key() = default;
  std::array<std::byte, kSize> bytes_ = {};
};

// Where a server is to be found.
struct Endpoint {
  std::string node;     // name of its host, for messages
  std::string address;  // IPv4 or IPv6, as numbers
  std::uint16_t port = 0;

  // "node address port", to be sent to other processes, and back (kCorrupt if it is not that).
  std::string to_text() const;
  static Result<Endpoint> from_text(std::string_view text);
  bool operator==(const Endpoint& other) const = default;
};

// Opens the file of an id, for reading; kNotFound if there is none. It is called in the thread of
// the server for every request, so that a file that was withdrawn is not read any more.
using Resolver = std::function<Result<std::unique_ptr<File>>(std::uint64_t id)>;

// Answers a call of a peer that has the key; at most 1 MiB. In the thread of the server: it must
// not wait for anything. Without one, calls are refused.
using Handler = std::function<Result<std::vector<std::byte>>(std::span<const std::byte> request)>;

struct ServerOptions {
  std::string node = {};  // name of this host, for messages; empty: the host's name
  // Peers that have not shown that they have the key: the oldest is dropped for a new one.
  std::size_t most_strangers = 64;
  // Peers that have: the one that has been idle longest, but at least for `least_idle`, is dropped
  // for a new one; if there is none, the new one is told to come again.
  std::size_t most_clients = 256;
  std::chrono::milliseconds least_idle{1'000};
  std::chrono::milliseconds stranger_timeout{5'000};
  // For a client that asks nothing, does not finish a request, or does not take its answer.
  std::chrono::milliseconds idle_timeout{120'000};
};

class [[gnu::visibility("default")]] RangeServer {
 public:
  // Listens at a free port of `address` (choose_address() in address.hpp).
  static Result<std::unique_ptr<RangeServer>> start(const std::string& address, const Key& key,
                                                    Resolver resolver, ServerOptions options = {},
                                                    Handler handler = {});
  // Closes all connections and waits for the thread; a client in the middle of a read gets an
  // error.
  ~RangeServer();
  RangeServer(const RangeServer&) = delete;
  RangeServer& operator=(const RangeServer&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }

  struct Counts {
    std::size_t strangers = 0;   // connected now, without proof of the key
    std::size_t clients = 0;     // connected now, with it
    std::uint64_t accepted = 0;  // since the start
    std::uint64_t refused = 0;   // handshakes that failed, and frames that were no valid requests
    std::uint64_t requests = 0;  // answered, also with an error
  };
  Counts counts() const;

 private:
  class Impl;
  RangeServer(std::unique_ptr<Impl> impl, Endpoint endpoint);
  std::unique_ptr<Impl> impl_;
  Endpoint endpoint_;
};

struct RemoteOptions {
  // Until the server has shown that it has the key.
  std::chrono::milliseconds connect_timeout{10'000};
  // For each reply, and for a server that has too many clients.
  std::chrono::milliseconds reply_timeout{60'000};
  // Small reads go through blocks kept in memory, 64 KiB each, and read ahead if they follow each
  // other. What is kept is not asked for again: only for files that do not change while they are
  // open. 0: every read asks the server, and sees what was written before it.
  std::size_t cached_blocks = 64;
};

// A file of another node, for reading. It may grow while it is open (with cached_blocks = 0); if
// another file takes its id, reads fail (kFailedPrecondition): open it again. Its map() and lock(),
// and all that would change it, fail; descriptor() is -1.
// Fails with kNotFound if the node has no such id, kPermissionDenied if either side has another
// key, kUnavailable if the node does not answer in time or nobody listens there.
Result<std::unique_ptr<File>> open_remote(const Endpoint& endpoint, const Key& key,
                                          std::uint64_t id, const RemoteOptions& options = {});

// Calls the handlers of servers, all at once. Each request is at most kMaxCall bytes. Answers in
// the order of the calls; each has its own error.
struct Call {
  Endpoint endpoint;
  std::vector<std::byte> request;
};
inline constexpr std::size_t kMostCallBytes = std::size_t{1} << 20U;
std::vector<Result<std::vector<std::byte>>> call(std::span<const Call> calls, const Key& key,
                                                 const RemoteOptions& options = {});

// Ok if the server can be reached and has the key: for deciding early whether nodes can read from
// each other.
Status probe(const Endpoint& endpoint, const Key& key, const RemoteOptions& options = {});

// Closes the idle connections that this process keeps for later reads.
void close_idle_connections();

}  // namespace scr::service
