#include "core/service/connection.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <optional>
#include <string_view>
#include <thread>

#include "core/base/text.hpp"
#include "core/service/transfer_whole.hpp"

namespace scr::service {
namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{500};

// Whether connecting may go better the next time.
enum class Again { kNo, kYes, kBusy };

constexpr std::string_view kChanged = "sent a reply that was changed on its way";

}  // namespace

class Connection::Impl {
 public:
  Impl(Endpoint endpoint, const RemoteOptions& options)
      : endpoint_(std::move(endpoint)), options_(options) {}

  Status open(const Key& key, Clock::time_point deadline, Again& again);
  Status send(Request request);
  Status send_call(ByteView payload);
  Result<ReplyHeader> receive(ByteSpan data);
  Result<std::vector<std::byte>> receive_answer();
  bool is_broken() const { return broken_; }
  bool is_late() const { return late_; }

 private:
  Status connect(Clock::time_point deadline);
  Status shake_hands(const Key& key, Clock::time_point deadline, Again& again);
  Status read(ByteSpan bytes, Clock::time_point deadline) { return read(bytes, {}, deadline); }
  Status read(ByteSpan bytes, ByteSpan after, Clock::time_point deadline);
  Status write(ByteView bytes, Clock::time_point deadline);
  // Runs the one operation that was begun, whose handler sets `result`.
  Status finish(const std::optional<asio::error_code>& result, Clock::time_point deadline);
  Result<ReplyHeader> receive_header(std::size_t longest, Clock::time_point deadline);
  Status receive_payload(const ReplyHeader& header, ByteSpan data, Clock::time_point deadline);
  Status server_error(const ReplyHeader& header, Clock::time_point deadline);

  std::string server() const {
    return fmt::format("node '{}' ({} port {})", text::escape(endpoint_.node),
                       text::escape(endpoint_.address), endpoint_.port);
  }
  Status broken(StatusCode code, std::string_view why, int errno_value = 0) {
    broken_ = true;
    return {code, fmt::format("{} {}", server(), why), errno_value};
  }
  Status gone(const asio::error_code& error) {
    return broken(
        StatusCode::kUnavailable,
        fmt::format("does not answer: {}",
                    error == asio::error::eof ? "it closed the connection" : error.message()),
        error.category() == asio::system_category() ? error.value() : 0);
  }

  const Endpoint endpoint_;
  const RemoteOptions options_;
  asio::io_context io_{1};
  tcp::socket socket_{io_};
  std::unique_ptr<SessionKeys> keys_;
  std::uint64_t next_request_ = 0;
  std::uint64_t next_reply_ = 0;
  bool broken_ = false;
  bool late_ = false;
};

// --- one operation with a deadline

Status Connection::Impl::finish(const std::optional<asio::error_code>& result,
                                Clock::time_point deadline) {
  io_.restart();
  io_.run_until(deadline);
  if (!result) {
    asio::error_code ignored;
    socket_.close(ignored);
    io_.run();
    late_ = true;
    return broken(StatusCode::kUnavailable, "does not answer: time is up", ETIMEDOUT);
  }
  return *result ? gone(*result) : Status();
}

Status Connection::Impl::read(ByteSpan bytes, ByteSpan after, Clock::time_point deadline) {
  std::optional<asio::error_code> result;
  const std::array<asio::mutable_buffer, 2> buffers = {asio::buffer(bytes.data(), bytes.size()),
                                                       asio::buffer(after.data(), after.size())};
  asio::async_read(socket_, buffers, TransferWhole(),
                   [&](const asio::error_code& error, std::size_t) { result = error; });
  return finish(result, deadline);
}

Status Connection::Impl::write(ByteView bytes, Clock::time_point deadline) {
  std::optional<asio::error_code> result;
  asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()), TransferWhole(),
                    [&](const asio::error_code& error, std::size_t) { result = error; });
  return finish(result, deadline);
}

// --- the handshake

Status Connection::Impl::connect(Clock::time_point deadline) {
  asio::error_code error;
  const auto ip = asio::ip::make_address(endpoint_.address, error);
  if (error) return broken(StatusCode::kInvalidArgument, "has no valid address");
  const tcp::endpoint place(ip, endpoint_.port);
  // asio's own open would let the socket live on in programs that the application starts.
  const int descriptor = ::socket(place.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return gone({errno, asio::system_category()});
  if (socket_.assign(place.protocol(), descriptor, error)) {
    ::close(descriptor);
    return gone(error);
  }
  std::optional<asio::error_code> result;
  socket_.async_connect(place, [&](const asio::error_code& done) { result = done; });
  SCR_RETURN_IF_ERROR(finish(result, deadline));
  socket_.set_option(tcp::no_delay(true), error);
  return {};
}

Status Connection::Impl::shake_hands(const Key& key, Clock::time_point deadline, Again& again) {
  // Until the server has read our proof it may drop us for others that come.
  const auto maybe_again = [&](Status status) {
    again = !status.ok() && !late_ ? Again::kYes : Again::kNo;
    return status;
  };
  std::array<std::byte, kGreetingSize> greeting_bytes = {};
  SCR_RETURN_IF_ERROR(maybe_again(read(greeting_bytes, deadline)));
  const auto greeting = parse_greeting(greeting_bytes);
  if (!greeting) return broken(StatusCode::kCorrupt, "has no range service of this version there");

  const Nonce nonce = make_nonce();
  const Cipher cipher = best_cipher(greeting->ciphers);
  keys_ = std::make_unique<SessionKeys>(key, greeting->server, nonce, cipher);
  std::array<std::byte, kHelloSize> hello_bytes = {};
  service::write(Hello{nonce, keys_->proof(Side::kClient), static_cast<std::uint16_t>(cipher)},
                 hello_bytes);
  SCR_RETURN_IF_ERROR(maybe_again(write(hello_bytes, deadline)));

  std::array<std::byte, kWelcomeSize> welcome_bytes = {};
  SCR_RETURN_IF_ERROR(maybe_again(read(welcome_bytes, deadline)));
  const auto welcome = parse_welcome(welcome_bytes);
  if (!welcome) return broken(StatusCode::kCorrupt, "has no range service of this version there");
  if (welcome->code == Code::kWrongKey) {
    return broken(StatusCode::kPermissionDenied,
                  "refuses our key: its range service is that of another job");
  }
  if (!keys_->is_proof(Side::kServer, welcome->proof)) {
    return broken(StatusCode::kPermissionDenied, "does not have the key of this job");
  }
  if (welcome->code == Code::kBusy) {
    again = Again::kBusy;
    return broken(StatusCode::kUnavailable, "has too many clients");
  }
  return {};
}

Status Connection::Impl::open(const Key& key, Clock::time_point deadline, Again& again) {
  again = Again::kNo;
  SCR_RETURN_IF_ERROR(connect(deadline));
  return shake_hands(key, deadline, again);
}

// --- requests and replies

Status Connection::Impl::send(Request request) {
  std::array<std::byte, kRequestSize> bytes = {};
  const ByteSpan frame(bytes.data(), kRequestHeaderSize);
  request.number = next_request_++;
  service::write(request, frame);
  keys_->seal(Side::kClient, request.number, frame, ByteSpan(bytes).subspan(kRequestHeaderSize));
  return write(bytes, Clock::now() + options_.reply_timeout);
}

Status Connection::Impl::send_call(ByteView payload) {
  Request request;
  request.kind = static_cast<std::uint16_t>(Kind::kCall);
  request.number = next_request_++;
  request.length = static_cast<std::uint32_t>(payload.size());
  std::vector<std::byte> bytes(kRequestSize + payload.size() + kTagSize);
  const ByteSpan frame = ByteSpan(bytes).first(kRequestHeaderSize);
  service::write(request, frame);
  keys_->seal(Side::kClient, request.number, frame,
              ByteSpan(bytes).subspan(kRequestHeaderSize, kTagSize));
  std::copy(payload.begin(), payload.end(), bytes.begin() + kRequestSize);
  keys_->seal(Side::kClient, payload_number(request.number), payload,
              ByteSpan(bytes).last(kTagSize));
  return write(bytes, Clock::now() + options_.reply_timeout);
}

Result<ReplyHeader> Connection::Impl::receive_header(std::size_t longest,
                                                     Clock::time_point deadline) {
  std::array<std::byte, kReplySize> bytes = {};
  SCR_RETURN_IF_ERROR(read(bytes, deadline));
  const ByteView frame = ByteView(bytes).first(kReplyHeaderSize);
  const auto header = parse_reply_header(frame);
  const std::uint64_t number = next_reply_++;
  const bool failed = header && header->code != static_cast<std::uint16_t>(Code::kOk);
  if (!header || header->number != number || header->length > (failed ? kMaxErrorText : longest)) {
    return broken(StatusCode::kCorrupt, "sent what is no reply to our request");
  }
  if (!keys_->is_sealed(Side::kServer, number, frame, ByteView(bytes).last(kTagSize))) {
    return broken(StatusCode::kCorrupt, kChanged);
  }
  if (failed) return server_error(*header, deadline);
  return *header;
}

// `data` has the size that the header says. The bytes go where they are wanted, and are verified
// there: a copy would cost as much as reading them from memory.
Status Connection::Impl::receive_payload(const ReplyHeader& header, ByteSpan data,
                                         Clock::time_point deadline) {
  if (data.empty()) return {};
  std::array<std::byte, kTagSize> tag = {};
  SCR_RETURN_IF_ERROR(read(data, tag, deadline));
  if (keys_->is_sealed(Side::kServer, payload_number(header.number), data, tag)) return {};
  return broken(StatusCode::kCorrupt, kChanged);
}

Result<ReplyHeader> Connection::Impl::receive(ByteSpan data) {
  const auto deadline = Clock::now() + options_.reply_timeout;
  SCR_ASSIGN_OR_RETURN(const ReplyHeader header, receive_header(data.size(), deadline));
  SCR_RETURN_IF_ERROR(receive_payload(header, data.first(header.length), deadline));
  return header;
}

Result<std::vector<std::byte>> Connection::Impl::receive_answer() {
  const auto deadline = Clock::now() + options_.reply_timeout;
  SCR_ASSIGN_OR_RETURN(const ReplyHeader header, receive_header(kMaxRead, deadline));
  std::vector<std::byte> answer(header.length);
  SCR_RETURN_IF_ERROR(receive_payload(header, answer, deadline));
  return answer;
}

Status Connection::Impl::server_error(const ReplyHeader& header, Clock::time_point deadline) {
  std::string text(header.length, '\0');
  SCR_RETURN_IF_ERROR(receive_payload(header, std::as_writable_bytes(std::span(text)), deadline));
  const std::string message = fmt::format("says: {}", text::escape(text));
  switch (static_cast<Code>(header.code)) {
    case Code::kNotFound:
      return {StatusCode::kNotFound, fmt::format("{} {}", server(), message)};
    case Code::kBadRequest:
      return broken(StatusCode::kInvalidArgument, message);
    default:
      return {StatusCode::kIoError, fmt::format("{} {}", server(), message)};
  }
}

// --- the interface

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::~Connection() = default;

Result<std::unique_ptr<Connection>> Connection::open(const Endpoint& endpoint, const Key& key,
                                                     const RemoteOptions& options) {
  SCR_RETURN_IF_ERROR(prepare_cryptography());
  const auto start = Clock::now();
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    try {
      auto impl = std::make_unique<Impl>(endpoint, options);
      Again again = Again::kNo;
      const Status status = impl->open(key, Clock::now() + options.connect_timeout, again);
      if (status.ok()) return std::unique_ptr<Connection>(new Connection(std::move(impl)));
      const auto patience = again == Again::kBusy ? options.reply_timeout : options.connect_timeout;
      if (again == Again::kNo || Clock::now() + pause >= start + patience) return status;
    } catch (const std::exception& error) {  // asio has no descriptors left for its own use
      return Status(StatusCode::kUnavailable,
                    fmt::format("cannot connect to node '{}': {}", endpoint.node, error.what()));
    }
    std::this_thread::sleep_for(pause);
  }
}

Status Connection::send(Request request) { return impl_->send(request); }
Status Connection::send_call(ByteView payload) { return impl_->send_call(payload); }
Result<ReplyHeader> Connection::receive(ByteSpan data) { return impl_->receive(data); }
Result<std::vector<std::byte>> Connection::receive_answer() { return impl_->receive_answer(); }
bool Connection::is_broken() const { return impl_->is_broken(); }
bool Connection::is_late() const { return impl_->is_late(); }

}  // namespace scr::service
