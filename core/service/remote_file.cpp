// open_remote(): a File whose bytes come from a range server, on pooled connections, with a small
// cache of blocks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <tuple>

#include "core/base/read_only_file.hpp"
#include "core/service/connection.hpp"

namespace scr::service {
namespace {

constexpr std::size_t kBlockSize = 65536;
constexpr std::uint64_t kMostBlocksAhead = 16;
// Larger reads gain nothing from blocks.
constexpr std::size_t kLargeRead = 2 * kBlockSize;
// Of a large read, asked for at a time: what fits into a core's own cache, where the server reads
// and seals it, and the client receives and verifies it.
constexpr std::size_t kPieceSize = 524288;
static_assert(kPieceSize <= kMaxRead);
// Requests on their way at once: enough to keep both sides busy.
constexpr std::size_t kWindow = 4;
constexpr std::size_t kMostIdle = 4;  // connections kept for a server
constexpr int kMostAttempts = 3;      // after the first

// --- idle connections of the process

class Pool {
 public:
  static Pool& instance() {
    static std::atomic<Pool*> current = nullptr;
    Pool* pool = current.load();
    // The child of a fork must not use its parent's connections, nor a lock that may be taken.
    while (pool == nullptr || pool->pid_ != ::getpid()) {
      auto fresh = std::unique_ptr<Pool>(new Pool(pool));
      if (current.compare_exchange_strong(pool, fresh.get())) pool = fresh.release();
    }
    return *pool;
  }

  // Nothing if there is none.
  std::unique_ptr<Connection> take(const Endpoint& endpoint, const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = idle_.find({endpoint.address, endpoint.port, key});
    if (found == idle_.end() || found->second.empty()) return nullptr;
    auto connection = std::move(found->second.back());
    found->second.pop_back();
    return connection;
  }

  void give_back(const Endpoint& endpoint, const Key& key, std::unique_ptr<Connection> connection) {
    if (connection->is_broken()) return;
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[{endpoint.address, endpoint.port, key}];
    if (idle.size() < kMostIdle) idle.push_back(std::move(connection));
  }

  void close(const Endpoint& endpoint, const Key& key) {
    const std::lock_guard lock(mutex_);
    idle_.erase({endpoint.address, endpoint.port, key});
  }

  void close_all() {
    const std::lock_guard lock(mutex_);
    idle_.clear();
  }

 private:
  explicit Pool(Pool* of_parent) : of_parent_(of_parent) {}

  using Place = std::tuple<std::string, std::uint16_t, Key>;
  const pid_t pid_ = ::getpid();
  [[maybe_unused]] Pool* const of_parent_;  // never used nor freed; for leak checkers
  std::mutex mutex_;
  std::map<Place, std::vector<std::unique_ptr<Connection>>> idle_;
};

// --- one server

class Server {
 public:
  Server(Endpoint endpoint, const Key& key, const RemoteOptions& options)
      : endpoint_(std::move(endpoint)), key_(key), options_(options) {}

  const Endpoint& endpoint() const { return endpoint_; }

  // Does `work(connection)` on a pooled connection or a new one. If the server has dropped us, as
  // it does with idle clients to make room for others, all of it is done again on a new one.
  template <typename Work>
  Status with_connection(Work work) {
    for (int attempt = 0;; ++attempt) {
      auto connection = attempt == 0 ? Pool::instance().take(endpoint_, key_) : nullptr;
      if (connection == nullptr) {
        SCR_ASSIGN_OR_RETURN(connection, Connection::open(endpoint_, key_, options_));
      }
      const Status status = work(*connection);
      const bool dropped = connection->is_broken() && !connection->is_late() &&
                           status.code() == StatusCode::kUnavailable;
      if (!dropped || attempt == kMostAttempts) {
        Pool::instance().give_back(endpoint_, key_, std::move(connection));
        return status;
      }
      Pool::instance().close(endpoint_, key_);
    }
  }

  Result<ReplyHeader> stat(std::uint64_t id);
  // As many bytes as there are, up to the whole buffer; `identity` must be that of the file.
  Result<std::size_t> read(std::uint64_t id, std::uint64_t identity, ByteSpan buffer,
                           std::uint64_t offset);

 private:
  Status read_pieces(Connection& connection, std::uint64_t id, std::uint64_t identity,
                     ByteSpan buffer, std::uint64_t offset, std::size_t& count);

  const Endpoint endpoint_;
  const Key key_;
  const RemoteOptions options_;
};

Result<ReplyHeader> Server::stat(std::uint64_t id) {
  ReplyHeader header;
  const Status status = with_connection([&](Connection& connection) -> Status {
    Request request;
    request.kind = static_cast<std::uint16_t>(Kind::kStat);
    request.id = id;
    SCR_RETURN_IF_ERROR(connection.send(request));
    SCR_ASSIGN_OR_RETURN(header, connection.receive({}));
    return {};
  });
  if (!status.ok()) return status;
  return header;
}

Result<std::size_t> Server::read(std::uint64_t id, std::uint64_t identity, ByteSpan buffer,
                                 std::uint64_t offset) {
  std::size_t count = 0;
  SCR_RETURN_IF_ERROR(with_connection([&](Connection& connection) {
    return read_pieces(connection, id, identity, buffer, offset, count);
  }));
  return count;
}

// Every request that was sent gets its reply received, so that the connection can be used again.
Status Server::read_pieces(Connection& connection, std::uint64_t id, std::uint64_t identity,
                           ByteSpan buffer, std::uint64_t offset, std::size_t& count) {
  const std::size_t pieces = (buffer.size() + kPieceSize - 1) / kPieceSize;
  const auto piece = [&](std::size_t i) {
    return buffer.subspan(i * kPieceSize, std::min(kPieceSize, buffer.size() - i * kPieceSize));
  };
  std::vector<std::byte> unwanted;  // what comes after the end was seen
  count = 0;
  Status failed;
  bool ended = false;
  std::size_t sent = 0;
  for (std::size_t received = 0; received < pieces; ++received) {
    for (; sent < pieces && sent < received + kWindow && !ended; ++sent) {
      Request request;
      request.kind = static_cast<std::uint16_t>(Kind::kRead);
      request.id = id;
      request.offset = offset + sent * kPieceSize;
      request.length = static_cast<std::uint32_t>(piece(sent).size());
      SCR_RETURN_IF_ERROR(connection.send(request));
    }
    if (received == sent) break;
    const ByteSpan wanted = piece(received);
    if (ended) unwanted.resize(kPieceSize);
    const auto reply = connection.receive(ended ? ByteSpan(unwanted) : wanted);
    if (connection.is_broken()) return reply.status();
    if (ended) continue;
    if (!reply.ok()) {
      failed = reply.status();
    } else if (reply->identity != identity) {
      failed = failed_precondition(
          fmt::format("node '{}' has another file under the id {:#x} than when it was opened",
                      endpoint_.node, id));
    } else {
      count += reply->length;
    }
    ended = !failed.ok() || reply->length < wanted.size();
  }
  return failed;
}

// --- the file

class RemoteFile : public ReadOnlyFile {
 public:
  RemoteFile(Server server, std::uint64_t id, const ReplyHeader& opened, std::size_t cached_blocks)
      : server_(std::move(server)),
        id_(id),
        identity_(opened.identity),
        size_(opened.size),
        cached_blocks_(cached_blocks),
        path_(fmt::format("{}:{:#x}", server_.endpoint().node, id)) {}

  Result<std::size_t> read_some(ByteSpan buffer, std::uint64_t offset) override {
    SCR_RETURN_IF_ERROR(check_usable());
    const std::uint64_t farthest = std::uint64_t{1} << 63U;
    if (buffer.empty() || offset >= farthest) return std::size_t{0};
    buffer = buffer.first(std::min<std::uint64_t>(buffer.size(), farthest - offset));
    if (cached_blocks_ == 0 || buffer.size() >= kLargeRead) {
      return server_.read(id_, identity_, buffer, offset);
    }
    return read_cached(buffer, offset);
  }

  Result<FileInfo> info() override {
    SCR_RETURN_IF_ERROR(check_usable());
    SCR_ASSIGN_OR_RETURN(const ReplyHeader header, server_.stat(id_));
    FileInfo info;
    info.type = FileInfo::Type::kRegular;
    info.size = header.size;
    info.mode = 0400;
    // Two nodes may have the same numbers for two files, but ids are given out once in a run.
    info.device = header.identity | kOwnDevice;
    info.inode = id_;
    return info;
  }

  Status close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    runs_.clear();
    kept_ = 0;
    return {};
  }
  const std::string& path() const override { return path_; }

 private:
  // Blocks that were fetched together.
  struct Run {
    std::uint64_t begin = 0;  // in the file
    std::size_t size = 0;
    std::unique_ptr<std::byte[]> bytes;

    bool holds(std::uint64_t at) const { return at >= begin && at < begin + size; }
  };

  Status check_usable() const {
    if (closed_) return errno_status(EBADF, "read", path_);
    if (::getpid() == pid_) return {};
    return failed_precondition(fmt::format("'{}' was opened before a fork; open it again", path_));
  }

  Result<std::size_t> read_cached(ByteSpan buffer, std::uint64_t offset);
  Result<const Run*> run_at(std::uint64_t at);
  Status fetch(std::uint64_t block);

  Server server_;
  const std::uint64_t id_;
  const std::uint64_t identity_;
  const std::uint64_t size_;  // when it was opened
  const std::size_t cached_blocks_;
  const std::string path_;
  const pid_t pid_ = ::getpid();
  std::atomic<bool> closed_ = false;

  std::mutex mutex_;
  std::list<Run> runs_;              // the one used last is first
  std::size_t kept_ = 0;             // bytes in them
  std::uint64_t after_fetched_ = 0;  // the block after those fetched last
  std::uint64_t ahead_ = 1;          // blocks fetched last
};

Result<std::size_t> RemoteFile::read_cached(ByteSpan buffer, std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  while (count < buffer.size() && offset + count < size_) {
    const std::uint64_t at = offset + count;
    SCR_ASSIGN_OR_RETURN(const Run* run, run_at(at));
    const std::size_t within = at - run->begin;
    const std::size_t part = std::min(run->size - within, buffer.size() - count);
    std::memcpy(buffer.data() + count, run->bytes.get() + within, part);
    count += part;
  }
  return count;
}

Result<const RemoteFile::Run*> RemoteFile::run_at(std::uint64_t at) {
  const auto found = std::find_if(runs_.begin(), runs_.end(),
                                  [&](const Run& candidate) { return candidate.holds(at); });
  if (found == runs_.end()) {
    SCR_RETURN_IF_ERROR(fetch(at / kBlockSize));
  } else if (found != runs_.begin()) {
    runs_.splice(runs_.begin(), runs_, found);
  }
  return &runs_.front();
}

// More and more blocks at a time while they follow those fetched before. The run becomes the first.
Status RemoteFile::fetch(std::uint64_t block) {
  const std::uint64_t most = std::min<std::uint64_t>(kMostBlocksAhead, cached_blocks_);
  const std::uint64_t ahead = block == after_fetched_ ? std::min(2 * ahead_, most) : 1;
  Run run;
  run.begin = block * kBlockSize;
  run.size = std::min(ahead * kBlockSize, size_ - run.begin);
  run.bytes = std::make_unique_for_overwrite<std::byte[]>(run.size);
  SCR_ASSIGN_OR_RETURN(const std::size_t count,
                       server_.read(id_, identity_, {run.bytes.get(), run.size}, run.begin));
  if (count < run.size) {
    return corrupt(fmt::format(
        "'{}' has become shorter than the {} bytes it had when it was opened", path_, size_));
  }
  while (!runs_.empty() && kept_ + run.size > cached_blocks_ * kBlockSize) {
    kept_ -= runs_.back().size;
    runs_.pop_back();
  }
  kept_ += run.size;
  runs_.push_front(std::move(run));
  after_fetched_ = block + ahead;
  ahead_ = ahead;
  return {};
}

}  // namespace

Result<std::unique_ptr<File>> open_remote(const Endpoint& endpoint, const Key& key,
                                          std::uint64_t id, const RemoteOptions& options) {
  Server server(endpoint, key, options);
  SCR_ASSIGN_OR_RETURN(const ReplyHeader opened, server.stat(id));
  return std::unique_ptr<File>(
      std::make_unique<RemoteFile>(std::move(server), id, opened, options.cached_blocks));
}

std::vector<Result<std::vector<std::byte>>> call(std::span<const Call> calls, const Key& key,
                                                 const RemoteOptions& options) {
  std::vector<Result<std::vector<std::byte>>> answers(calls.size(), internal_error("no answer"));
  const auto finish = [&](Connection& connection, std::size_t i) -> Status {
    answers[i] = connection.receive_answer();
    return answers[i].status();
  };
  // All are sent before the first answer is waited for; one whose idle connection turns out to be
  // closed is done again by itself.
  std::vector<std::unique_ptr<Connection>> connections(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    connections[i] = Pool::instance().take(calls[i].endpoint, key);
    if (connections[i] && !connections[i]->send_call(calls[i].request).ok()) connections[i].reset();
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Status status(StatusCode::kUnavailable, "not sent");
    bool again = connections[i] == nullptr;
    if (connections[i]) {
      status = finish(*connections[i], i);
      again = connections[i]->is_broken() && !connections[i]->is_late();
      Pool::instance().give_back(calls[i].endpoint, key, std::move(connections[i]));
    }
    if (again) {
      status = Server(calls[i].endpoint, key, options).with_connection([&](Connection& connection) {
        Status sent = connection.send_call(calls[i].request);
        return sent.ok() ? finish(connection, i) : sent;
      });
    }
    if (!status.ok()) answers[i] = status;
  }
  return answers;
}

Status probe(const Endpoint& endpoint, const Key& key, const RemoteOptions& options) {
  SCR_ASSIGN_OR_RETURN(auto connection, Connection::open(endpoint, key, options));
  Pool::instance().give_back(endpoint, key, std::move(connection));
  return {};
}

void close_idle_connections() { Pool::instance().close_all(); }

}  // namespace scr::service
