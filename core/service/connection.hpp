// Connection: the client's end of one connection to a range server. Used by one thread at a time.
// Internal to core/service.
#pragma once

#include <memory>
#include <vector>

#include "core/service/protocol.hpp"

namespace scr::service {

class Connection {
 public:
  // Connects, and both sides show that they have the key. Comes again until the time is up if the
  // server is busy.
  static Result<std::unique_ptr<Connection>> open(const Endpoint& endpoint, const Key& key,
                                                  const RemoteOptions& options);
  ~Connection();

  // Several requests may be sent before the first reply is received; replies come in their order.
  // The number is filled in.
  Status send(Request request);
  Status send_call(ByteView payload);

  // The next reply, whose data goes to the beginning of `data` and has its length in the header;
  // verified to be the server's, whole, and no longer than `data`. An error that the server reports
  // is one of the Result, too, and leaves the connection usable unless is_broken(). After an error
  // `data` may hold anything.
  Result<ReplyHeader> receive(ByteSpan data);
  // The same for the answer to a call.
  Result<std::vector<std::byte>> receive_answer();

  // Of no use any more: the peer is gone, late, or not to be believed.
  bool is_broken() const;
  bool is_late() const;

 private:
  class Impl;
  explicit Connection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace scr::service
