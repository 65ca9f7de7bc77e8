// ServerSession: one connection of the range server as a machine that takes and gives bytes,
// without a socket, so that tests and the fuzzer reach all of it. Internal to core/service.
#pragma once

#include <memory>
#include <vector>

#include "core/service/protocol.hpp"

namespace scr::service {

class ServerSession {
 public:
  ServerSession(const Key& key, const Resolver& resolver);

  // The first bytes that go to the peer.
  const std::array<std::byte, kGreetingSize>& greeting() const { return greeting_; }

  // How many bytes it wants next; never 0.
  std::size_t wants() const { return keys_ ? kRequestSize : kHelloSize; }
  bool is_client() const { return keys_ != nullptr; }

  struct Outcome {
    std::size_t reply = 0;  // bytes written to the buffer, to be sent
    bool close = false;     // after the reply
    bool refused = false;   // the peer has another key, or sent what is no request
  };
  // `bytes` are as many as it wants; `buffer` has kMaxReplySize. With `full` a peer that shows the
  // key is told that there are too many clients.
  Outcome take(ByteView bytes, bool full, ByteSpan buffer);

 private:
  Outcome take_hello(const Hello& hello, bool full, ByteSpan buffer);
  Outcome answer(const Request& request, ByteSpan buffer);
  ReplyHeader read(const Request& request, ByteSpan data, std::string& error);

  const Key& key_;
  const Resolver& resolver_;
  Nonce nonce_;
  std::array<std::byte, kGreetingSize> greeting_;
  std::unique_ptr<SessionKeys> keys_;  // once the peer has shown that it has the key
  std::uint64_t next_ = 0;             // number of the next request
};

}  // namespace scr::service
