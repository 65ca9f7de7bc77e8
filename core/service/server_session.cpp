#include "core/service/server_session.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace scr::service {
namespace {

constexpr ServerSession::Outcome kHangUp = {.reply = 0, .close = true, .refused = true};

std::uint64_t identity_of(const FileInfo& info) {
  constexpr std::uint64_t kOddNumber = 0x9e3779b97f4a7c15;  // spreads the device over all bits
  return static_cast<std::uint64_t>(info.inode) ^
         static_cast<std::uint64_t>(info.device) * kOddNumber;
}

Code code_of(const Status& status) {
  return status.code() == StatusCode::kNotFound ? Code::kNotFound : Code::kFailed;
}

}  // namespace

ServerSession::ServerSession(const Key& key, const Resolver& resolver, const Handler& handler)
    : key_(key), resolver_(resolver), handler_(handler), nonce_(make_nonce()) {
  write(Greeting{nonce_, ciphers_of_host()}, greeting_);
}

const Handler& ServerSession::no_calls() {
  static const Handler none;
  return none;
}

ServerSession::Outcome ServerSession::take(ByteView bytes, bool full, ByteSpan buffer) {
  if (keys_ == nullptr) {
    const auto hello = parse_hello(bytes);
    return hello ? take_hello(*hello, full, buffer) : kHangUp;
  }
  if (call_) return take_call(bytes, buffer);
  if (bytes.size() != kRequestSize) return kHangUp;
  const ByteView frame = bytes.first(kRequestHeaderSize);
  if (!keys_->is_sealed(Side::kClient, next_, frame, bytes.subspan(kRequestHeaderSize))) {
    return kHangUp;
  }
  const auto request = parse_request(frame);
  if (!request || request->number != next_) return kHangUp;
  if (request->kind == static_cast<std::uint16_t>(Kind::kCall) && request->length <= kMaxCall) {
    call_ = request;
    return {.more = true};
  }
  std::string error;
  const ReplyHeader reply = read(*request, buffer.subspan(kReplySize, kMaxRead), error);
  return answer(reply, std::move(error), buffer);
}

ServerSession::Outcome ServerSession::take_call(ByteView bytes, ByteSpan buffer) {
  const ByteView payload = bytes.first(call_->length);
  const bool sealed =
      keys_->is_sealed(Side::kClient, payload_number(next_), payload, bytes.subspan(call_->length));
  call_.reset();
  if (!sealed) return kHangUp;
  ReplyHeader reply;
  std::string error;
  auto answered = handler_ ? handler_(payload) : invalid_argument("calls are not answered here");
  if (!answered.ok() || answered->size() > kMaxRead) {
    reply.code =
        static_cast<std::uint16_t>(answered.ok() ? Code::kFailed : code_of(answered.status()));
    error = answered.ok() ? "the answer is too long" : answered.status().message();
  } else {
    std::copy(answered->begin(), answered->end(), buffer.begin() + kReplySize);
    reply.length = static_cast<std::uint32_t>(answered->size());
  }
  return answer(reply, std::move(error), buffer);
}

ServerSession::Outcome ServerSession::take_hello(const Hello& hello, bool full, ByteSpan buffer) {
  if (!is_cipher_of_host(hello.cipher)) return kHangUp;
  auto keys =
      std::make_unique<SessionKeys>(key_, nonce_, hello.client, static_cast<Cipher>(hello.cipher));
  Outcome outcome{.reply = kWelcomeSize};
  Welcome welcome;
  if (!keys->is_proof(Side::kClient, hello.proof)) {
    // Nothing that is made with the key goes to a peer that has not shown it.
    welcome.code = Code::kWrongKey;
    outcome.close = outcome.refused = true;
  } else {
    welcome.code = full ? Code::kBusy : Code::kOk;
    welcome.proof = keys->proof(Side::kServer);
    outcome.close = full;
    if (!full) keys_ = std::move(keys);
  }
  write(welcome, buffer.first(kWelcomeSize));
  return outcome;
}

ReplyHeader ServerSession::read(const Request& request, ByteSpan data, std::string& error) {
  ReplyHeader reply;
  const auto fail = [&](Code code, std::string_view message) {
    reply.code = static_cast<std::uint16_t>(code);
    error = message;
    return reply;
  };
  const bool is_read = request.kind == static_cast<std::uint16_t>(Kind::kRead);
  if (!is_read && request.kind != static_cast<std::uint16_t>(Kind::kStat)) {
    return fail(Code::kBadRequest, fmt::format("there are no requests of kind {}", request.kind));
  }
  if (is_read && request.length > kMaxRead) {
    return fail(Code::kBadRequest,
                fmt::format("{} bytes in one request are too many, {} is the most", request.length,
                            kMaxRead));
  }
  auto file = resolver_(request.id);
  if (!file.ok()) return fail(code_of(file.status()), file.status().message());
  const auto info = (*file)->info();
  if (!info.ok()) return fail(Code::kFailed, info.status().message());
  reply.size = info->size;
  reply.identity = identity_of(*info);
  if (!is_read || request.length == 0 || request.offset >= info->size) return reply;
  const auto count = (*file)->read(data.first(request.length), request.offset);
  if (!count.ok()) return fail(Code::kFailed, count.status().message());
  reply.length = static_cast<std::uint32_t>(*count);
  return reply;
}

// The data of a good reply is in the buffer already.
ServerSession::Outcome ServerSession::answer(ReplyHeader reply, std::string error,
                                             ByteSpan buffer) {
  const ByteSpan data = buffer.subspan(kReplySize, kMaxRead);
  reply.number = next_++;
  if (reply.code != static_cast<std::uint16_t>(Code::kOk)) {
    error.resize(std::min<std::size_t>(error.size(), kMaxErrorText));
    const ByteView text = std::as_bytes(std::span(error));
    std::copy(text.begin(), text.end(), data.begin());
    reply.length = static_cast<std::uint32_t>(error.size());
  }
  const ByteSpan frame = buffer.first(kReplyHeaderSize);
  write(reply, frame);
  keys_->seal(Side::kServer, reply.number, frame, buffer.subspan(kReplyHeaderSize, kTagSize));
  std::size_t size = kReplySize;
  if (reply.length > 0) {
    keys_->seal(Side::kServer, payload_number(reply.number), data.first(reply.length),
                buffer.subspan(kReplySize + reply.length, kTagSize));
    size += reply.length + kTagSize;
  }
  const bool bad = reply.code == static_cast<std::uint16_t>(Code::kBadRequest);
  return {.reply = size, .close = bad, .refused = bad};
}

}  // namespace scr::service
