// RangeServer on asio: one thread, one io_context, a ServerSession for each connection.
#include <fmt/format.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <cerrno>
#include <list>
#include <thread>

#include "core/base/background_thread.hpp"
#include "core/base/log.hpp"
#include "core/service/server_session.hpp"
#include "core/service/transfer_whole.hpp"

namespace scr::service {
namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using ReplyBuffer = std::unique_ptr<std::byte[]>;

constexpr std::size_t kSpareBuffers = 8;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::size_t kMostDrained = 65536;

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

struct Peer {
  Peer(tcp::socket socket_in, const Key& key, const Resolver& resolver, const Handler& handler)
      : socket(std::move(socket_in)), session(key, resolver, handler) {}
  tcp::socket socket;
  ServerSession session;
  std::vector<std::byte> in;
  ReplyBuffer out;
  Clock::time_point deadline;
  bool listed_as_client = false;
  bool waiting = false;  // for bytes of the peer
  std::size_t drained = 0;
  std::list<std::shared_ptr<Peer>>::iterator place;
};
using PeerPtr = std::shared_ptr<Peer>;

}  // namespace

// All but start, stop and counts runs in the thread.
class RangeServer::Impl {
 public:
  Impl(const Key& key, Resolver resolver, ServerOptions options, Handler handler)
      : key_(key),
        resolver_(std::move(resolver)),
        handler_(std::move(handler)),
        options_(std::move(options)) {}

  Status listen(const std::string& address);
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  Status start_thread();
  void stop();
  Counts counts() const;
  // In the child of a fork there is no thread to wait for, and its locks may be taken.
  bool is_copy_of_parent() const { return ::getpid() != pid_; }

 private:
  void run();
  void wait_for_peers();
  void accept_peers();
  void add_stranger(int descriptor);
  void greet(const PeerPtr& peer);
  void read(const PeerPtr& peer);
  void take(const PeerPtr& peer);
  void reply(const PeerPtr& peer, const ServerSession::Outcome& outcome);
  void drain(const PeerPtr& peer);

  PeerPtr idle_client() const;
  bool is_full() const;
  void make_client(const PeerPtr& peer);
  void drop(PeerPtr peer);
  void touch(const PeerPtr& peer);
  std::list<PeerPtr>& list_of(const Peer& peer) {
    return peer.listed_as_client ? clients_ : strangers_;
  }

  ReplyBuffer take_buffer();
  void give_back(ReplyBuffer buffer);
  void watch_deadlines();
  void drop_late();
  void publish_counts();

  const Key key_;
  const Resolver resolver_;
  const Handler handler_;
  const ServerOptions options_;
  const pid_t pid_ = ::getpid();
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer accept_pause_{io_};
  asio::steady_timer deadlines_{io_};
  Clock::time_point watched_ =
      Clock::time_point::max();  // when deadlines_ ends; max: it does not run
  // Each in the order of deadlines.
  std::list<PeerPtr> strangers_;
  std::list<PeerPtr> clients_;
  std::vector<ReplyBuffer> spare_buffers_;
  std::thread thread_;

  std::atomic<std::size_t> stranger_count_ = 0;
  std::atomic<std::size_t> client_count_ = 0;
  std::atomic<std::uint64_t> accepted_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<std::uint64_t> requests_ = 0;
};

// --- start and stop

Status RangeServer::Impl::listen(const std::string& address) {
  const auto failed = [&](const asio::error_code& error) {
    return errno_status(error.value(), "listen for the range service at", address);
  };
  asio::error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) return failed(error);
  const tcp::endpoint place(ip, 0);
  // asio's own open would let the socket live on in programs that the application starts.
  const int descriptor = ::socket(place.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return failed({errno, asio::system_category()});
  if (acceptor_.assign(place.protocol(), descriptor, error)) {
    ::close(descriptor);
    return failed(error);
  }
  if (acceptor_.bind(place, error)) return failed(error);
  if (acceptor_.listen(asio::socket_base::max_listen_connections, error)) return failed(error);
  if (acceptor_.non_blocking(true, error)) return failed(error);
  return {};
}

Status RangeServer::Impl::start_thread() {
  wait_for_peers();
  SCR_ASSIGN_OR_RETURN(thread_, start_background_thread([this] { run(); }));
  return {};
}

void RangeServer::Impl::stop() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

void RangeServer::Impl::run() {
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception& error) {
      log::warning("range service: {}", error.what());  // out of memory, mostly: others may go on
    }
  }
}

RangeServer::Counts RangeServer::Impl::counts() const {
  return {stranger_count_, client_count_, accepted_, refused_, requests_};
}

// --- connections

void RangeServer::Impl::wait_for_peers() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const asio::error_code& error) {
    if (!error) accept_peers();
  });
}

void RangeServer::Impl::accept_peers() {
  for (;;) {
    const int descriptor =
        ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor >= 0) {
      add_stranger(descriptor);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return wait_for_peers();
    if (errno == EINTR || errno == ECONNABORTED) continue;
    break;
  }
  // No descriptor is free, or the like. The peers wait in the kernel's queue meanwhile.
  if (!strangers_.empty()) drop(strangers_.front());
  accept_pause_.expires_after(kAcceptPause);
  accept_pause_.async_wait([this](const asio::error_code& error) {
    if (!error) accept_peers();
  });
}

void RangeServer::Impl::add_stranger(int descriptor) {
  tcp::socket socket(io_);
  asio::error_code error;
  const auto family = acceptor_.local_endpoint(error).protocol();
  if (error || socket.assign(family, descriptor, error)) {
    ::close(descriptor);
    return;
  }
  socket.set_option(tcp::no_delay(true), error);
  socket.set_option(asio::socket_base::keep_alive(true), error);
  if (strangers_.size() >= options_.most_strangers) drop(strangers_.front());
  auto peer = std::make_shared<Peer>(std::move(socket), key_, resolver_, handler_);
  peer->place = strangers_.insert(strangers_.end(), peer);
  ++accepted_;
  touch(peer);
  greet(peer);
}

void RangeServer::Impl::greet(const PeerPtr& peer) {
  asio::async_write(peer->socket, asio::buffer(peer->session.greeting()),
                    [this, peer](const asio::error_code& error, std::size_t) {
                      if (error) return drop(peer);
                      read(peer);
                    });
}

void RangeServer::Impl::read(const PeerPtr& peer) {
  peer->waiting = true;
  peer->in.resize(peer->session.wants());
  asio::async_read(peer->socket, asio::buffer(peer->in), TransferWhole(),
                   [this, peer](const asio::error_code& error, std::size_t) {
                     peer->waiting = false;
                     // What had arrived when the peer was dropped comes without an error.
                     if (error || !peer->socket.is_open()) return drop(peer);
                     take(peer);
                   });
}

void RangeServer::Impl::take(const PeerPtr& peer) {
  const bool was_client = peer->session.is_client();
  ServerSession::Outcome outcome = {.reply = 0, .close = true, .refused = false};
  try {
    peer->out = take_buffer();
    outcome = peer->session.take(peer->in, is_full(), {peer->out.get(), kMaxReplySize});
  } catch (const std::exception& error) {
    log::warning("range service: a request failed: {}", error.what());
    return drop(peer);
  }
  if (outcome.refused) ++refused_;
  if (was_client && outcome.reply > 0) ++requests_;
  if (!was_client && peer->session.is_client()) make_client(peer);
  if (was_client) touch(peer);
  if (outcome.more) {
    give_back(std::move(peer->out));
    return read(peer);
  }
  if (outcome.reply == 0) return drop(peer);
  reply(peer, outcome);
}

void RangeServer::Impl::reply(const PeerPtr& peer, const ServerSession::Outcome& outcome) {
  asio::async_write(peer->socket, asio::buffer(peer->out.get(), outcome.reply), TransferWhole(),
                    [this, peer, close = outcome.close](asio::error_code error, std::size_t) {
                      give_back(std::move(peer->out));
                      if (error) return drop(peer);
                      if (!close) return read(peer);
                      peer->socket.shutdown(tcp::socket::shutdown_send, error);
                      drain(peer);
                    });
}

// Closing while bytes of the peer are unread would make the kernel take back the last reply.
void RangeServer::Impl::drain(const PeerPtr& peer) {
  peer->socket.async_read_some(asio::buffer(peer->in),
                               [this, peer](const asio::error_code& error, std::size_t count) {
                                 peer->drained += count;
                                 if (error || peer->drained > kMostDrained) return drop(peer);
                                 drain(peer);
                               });
}

// --- who is connected

// Nothing if there is none. One in the middle of a long read is for moments idle, too.
PeerPtr RangeServer::Impl::idle_client() const {
  const auto latest = Clock::now() + options_.idle_timeout - options_.least_idle;
  const auto idle = std::find_if(clients_.begin(), clients_.end(), [&](const PeerPtr& peer) {
    return peer->waiting && peer->deadline <= latest;
  });
  return idle == clients_.end() ? nullptr : *idle;
}

bool RangeServer::Impl::is_full() const {
  return clients_.size() >= options_.most_clients && idle_client() == nullptr;
}

void RangeServer::Impl::make_client(const PeerPtr& peer) {
  if (clients_.size() >= options_.most_clients) {
    if (const PeerPtr idle = idle_client()) drop(idle);
  }
  clients_.splice(clients_.end(), strangers_, peer->place);
  peer->listed_as_client = true;
  touch(peer);
}

// Its outstanding operations end with an error and drop it once more, which does nothing.
// A copy keeps it alive while the lists let go of it.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void RangeServer::Impl::drop(PeerPtr peer) {
  if (!peer->socket.is_open()) return;
  asio::error_code ignored;
  peer->socket.close(ignored);
  list_of(*peer).erase(peer->place);
  publish_counts();
}

// The time of a stranger runs from its arrival on, whatever it sends.
void RangeServer::Impl::touch(const PeerPtr& peer) {
  peer->deadline =
      Clock::now() + (peer->listed_as_client ? options_.idle_timeout : options_.stranger_timeout);
  std::list<PeerPtr>& list = list_of(*peer);
  list.splice(list.end(), list, peer->place);
  publish_counts();
  watch_deadlines();
}

void RangeServer::Impl::publish_counts() {
  stranger_count_ = strangers_.size();
  client_count_ = clients_.size();
}

void RangeServer::Impl::watch_deadlines() {
  auto next = Clock::time_point::max();
  for (const auto* list : {&strangers_, &clients_}) {
    if (!list->empty()) next = std::min(next, list->front()->deadline);
  }
  if (next >= watched_) return;  // it will look for the next one then
  watched_ = next;
  deadlines_.expires_at(next);
  deadlines_.async_wait([this](const asio::error_code& error) {
    if (error) return;  // an earlier one has taken its place
    watched_ = Clock::time_point::max();
    drop_late();
  });
}

void RangeServer::Impl::drop_late() {
  const auto now = Clock::now();
  for (auto* list : {&strangers_, &clients_}) {
    while (!list->empty() && list->front()->deadline <= now) drop(list->front());
  }
  watch_deadlines();
}

// --- buffers

ReplyBuffer RangeServer::Impl::take_buffer() {
  if (spare_buffers_.empty()) return ReplyBuffer(new std::byte[kMaxReplySize]);
  ReplyBuffer buffer = std::move(spare_buffers_.back());
  spare_buffers_.pop_back();
  return buffer;
}

void RangeServer::Impl::give_back(ReplyBuffer buffer) {
  if (buffer && spare_buffers_.size() < kSpareBuffers) spare_buffers_.push_back(std::move(buffer));
}

// --- the interface

RangeServer::RangeServer(std::unique_ptr<Impl> impl, Endpoint endpoint)
    : impl_(std::move(impl)), endpoint_(std::move(endpoint)) {}

RangeServer::~RangeServer() {
  if (impl_->is_copy_of_parent()) {
    (void)impl_.release();
  } else {
    impl_->stop();
  }
}

Result<std::unique_ptr<RangeServer>> RangeServer::start(const std::string& address, const Key& key,
                                                        Resolver resolver, ServerOptions options,
                                                        Handler handler) {
  SCR_RETURN_IF_ERROR(prepare_cryptography());
  try {
    const std::string node = options.node.empty() ? host_name() : options.node;
    auto impl =
        std::make_unique<Impl>(key, std::move(resolver), std::move(options), std::move(handler));
    SCR_RETURN_IF_ERROR(impl->listen(address));
    const Endpoint endpoint{node, address, impl->port()};
    SCR_RETURN_IF_ERROR(impl->start_thread());
    return std::unique_ptr<RangeServer>(new RangeServer(std::move(impl), endpoint));
  } catch (const std::exception& error) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("cannot start the range service at {}: {}", address, error.what()));
  }
}

RangeServer::Counts RangeServer::counts() const { return impl_->counts(); }

}  // namespace scr::service
