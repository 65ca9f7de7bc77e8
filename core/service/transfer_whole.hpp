// How much asio's reads and writes move at a time. Internal to core/service.
#pragma once

#include <asio/error_code.hpp>
#include <cstddef>

#include "core/service/protocol.hpp"

namespace scr::service {

// A completion condition: all of the buffers, in as few system calls as the socket allows. asio's
// own transfer_all() moves 64 KiB a call, and asks for events after each.
struct TransferWhole {
  std::size_t operator()(const asio::error_code& error, std::size_t /*done*/) const {
    return error ? 0 : kMaxReplySize;
  }
};

}  // namespace scr::service
