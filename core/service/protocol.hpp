// What goes over the wire between range server and client (docs/formats/range-service.md): frames
// as structs, their bytes, and the cryptography of a session. No sockets here. Internal to
// core/service.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/service/range_service.hpp"

namespace scr::service {

inline constexpr std::uint16_t kProtocolVersion = 2;
inline constexpr std::size_t kNonceSize = 32;
inline constexpr std::size_t kProofSize = 32;
inline constexpr std::size_t kTagSize = 16;

inline constexpr std::size_t kGreetingSize = 8 + kNonceSize;
inline constexpr std::size_t kHelloSize = 8 + kNonceSize + kProofSize;
inline constexpr std::size_t kWelcomeSize = 8 + kProofSize;
inline constexpr std::size_t kRequestHeaderSize = 40;
inline constexpr std::size_t kRequestSize = kRequestHeaderSize + kTagSize;
inline constexpr std::size_t kReplyHeaderSize = 40;
inline constexpr std::size_t kReplySize = kReplyHeaderSize + kTagSize;
// Bounds what a client can make the server hold in memory.
inline constexpr std::uint32_t kMaxRead = 1U << 20U;
inline constexpr std::uint32_t kMaxCall = 1U << 20U;
inline constexpr std::uint32_t kMaxErrorText = 1024;
inline constexpr std::size_t kMaxReplySize = kReplySize + kMaxRead + kTagSize;

using Nonce = std::array<std::byte, kNonceSize>;
using Proof = std::array<std::byte, kProofSize>;
using ByteView = std::span<const std::byte>;
using ByteSpan = std::span<std::byte>;

// What tags are made with. Every side has the first; the second is twice as fast, on processors
// that compute it themselves, and the tags are most of what a read costs.
enum class Cipher : std::uint16_t { kChaCha20Poly1305 = 1, kAes256Gcm = 2 };

// Those that this host has, as a sum.
std::uint16_t ciphers_of_host();
// The best of this host and of `others`; what is unknown among those does no harm.
Cipher best_cipher(std::uint16_t others);
bool is_cipher_of_host(std::uint16_t cipher);

// A call is followed by `length` bytes and their tag, sealed under payload_number().
enum class Kind : std::uint16_t { kStat = 1, kRead = 2, kCall = 3 };

enum class Code : std::uint16_t {
  kOk = 0,
  kWrongKey = 1,    // welcome: the proof is wrong
  kBusy = 2,        // welcome: too many clients, come again
  kNotFound = 3,    // reply: no such id
  kBadRequest = 4,  // reply: too long, or of no known kind; the connection is closed
  kFailed = 5,      // reply: the file cannot be read
};

struct Greeting {
  Nonce server = {};
  std::uint16_t ciphers = static_cast<std::uint16_t>(Cipher::kChaCha20Poly1305);
};
struct Hello {
  Nonce client = {};
  Proof proof = {};
  std::uint16_t cipher = static_cast<std::uint16_t>(Cipher::kChaCha20Poly1305);  // as it came
};
struct Welcome {
  Code code = Code::kOk;
  Proof proof = {};
};
struct Request {
  std::uint16_t kind = 0;  // as it came: may be none of Kind
  std::uint64_t number = 0;
  std::uint64_t id = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};
struct ReplyHeader {
  std::uint16_t code = 0;
  std::uint64_t number = 0;
  std::uint64_t size = 0;      // of the file, now
  std::uint64_t identity = 0;  // another one means another file
  std::uint32_t length = 0;    // of what follows: data, or the text of an error
};

// Each number seals one frame: what follows the header of a call, or of a reply, has its own.
constexpr std::uint64_t payload_number(std::uint64_t request) {
  return request | (std::uint64_t{1} << 63U);
}

// `out` has the size of the frame. Parsing gives nothing if it is no such frame of this version.
void write(const Greeting& greeting, ByteSpan out);
void write(const Hello& hello, ByteSpan out);
void write(const Welcome& welcome, ByteSpan out);
void write(const Request& request, ByteSpan out);    // without the tag
void write(const ReplyHeader& reply, ByteSpan out);  // without the tag
std::optional<Greeting> parse_greeting(ByteView bytes);
std::optional<Hello> parse_hello(ByteView bytes);
std::optional<Welcome> parse_welcome(ByteView bytes);
std::optional<Request> parse_request(ByteView bytes);
std::optional<ReplyHeader> parse_reply_header(ByteView bytes);

// Must have been called, and be ok, before all below.
Status prepare_cryptography();
Nonce make_nonce();

enum class Side { kClient, kServer };

// What one side of a connection knows once both nonces are there.
class SessionKeys {
 public:
  // `cipher` is one of this host.
  SessionKeys(const Key& key, const Nonce& server, const Nonce& client, Cipher cipher);
  ~SessionKeys();
  SessionKeys(const SessionKeys&) = delete;
  SessionKeys& operator=(const SessionKeys&) = delete;

  // Shows that `side` has the key.
  Proof proof(Side side) const;
  bool is_proof(Side side, const Proof& claimed) const;

  // The tag of the frame with this number that `side` sends; each number is used once.
  void seal(Side side, std::uint64_t number, ByteView frame, ByteSpan tag) const;
  bool is_sealed(Side side, std::uint64_t number, ByteView frame, ByteView tag) const;

 private:
  struct FrameKeys;  // of both sides
  Proof client_proof_ = {};
  Proof server_proof_ = {};
  std::unique_ptr<FrameKeys> frames_;
};

}  // namespace scr::service
