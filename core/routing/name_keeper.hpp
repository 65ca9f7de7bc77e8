// Who of the ranks looks after a name, when all of them ask each other about files; and what they
// answer with.
#pragma once

#include <span>
#include <string>

#include "core/base/checksum.hpp"
#include "core/base/hash.hpp"
#include "core/mpi/communicator.hpp"

namespace scr::routing {

// The rank, as the key of an exchange.
inline std::string keeper_of(const std::string& relative, const Communicator& world) {
  return std::to_string(crc32(std::as_bytes(std::span(relative))) %
                        static_cast<std::uint32_t>(world.size()));
}

// 0 if there is none.
inline std::uint64_t number(const Hash& hash, std::string_view key) {
  auto value = hash.require_uint(key);
  return value.ok() ? *value : 0;
}

}  // namespace scr::routing
