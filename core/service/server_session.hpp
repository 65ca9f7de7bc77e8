// ServerSession: one connection of the range server as a machine that takes and gives bytes,
// without a socket, so that tests and the fuzzer reach all of it. Internal to core/service.
#pragma once

#include <memory>
#include <vector>

#include "core/service/protocol.hpp"

namespace scr::service {

class ServerSession {
 public:
  ServerSession(const Key& key, const Resolver& resolver, const Handler& handler = no_calls());
  static const Handler& no_calls();

  // The first bytes that go to the peer.
  const std::array<std::byte, kGreetingSize>& greeting() const { return greeting_; }

  // How many bytes it wants next; never 0.
  std::size_t wants() const {
    if (call_) return call_->length + kTagSize;
    return keys_ ? kRequestSize : kHelloSize;
  }
  bool is_client() const { return keys_ != nullptr; }

  struct Outcome {
    std::size_t reply = 0;  // bytes written to the buffer, to be sent
    bool close = false;     // after the reply
    bool refused = false;   // the peer has another key, or sent what is no request
    bool more = false;      // no reply yet: it wants the rest of the request
  };
  // `bytes` are as many as it wants; `buffer` has kMaxReplySize. With `full` a peer that shows the
  // key is told that there are too many clients.
  Outcome take(ByteView bytes, bool full, ByteSpan buffer);

 private:
  Outcome take_hello(const Hello& hello, bool full, ByteSpan buffer);
  Outcome take_call(ByteView bytes, ByteSpan buffer);
  Outcome answer(ReplyHeader reply, std::string error, ByteSpan buffer);
  ReplyHeader read(const Request& request, ByteSpan data, std::string& error);

  const Key& key_;
  const Resolver& resolver_;
  const Handler& handler_;
  Nonce nonce_;
  std::array<std::byte, kGreetingSize> greeting_;
  std::unique_ptr<SessionKeys> keys_;  // once the peer has shown that it has the key
  std::uint64_t next_ = 0;             // number of the next request
  std::optional<Request> call_;        // whose bytes are to come
};

}  // namespace scr::service
