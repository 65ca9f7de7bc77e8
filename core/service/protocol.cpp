#include "core/service/protocol.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <concepts>
#include <string_view>

#include "core/base/byte_order.hpp"
#include "core/base/text.hpp"

namespace scr::service {
namespace {

constexpr std::uint32_t kHandshakeMagic = 0x53435248;  // "SCRH"
constexpr std::uint32_t kRequestMagic = 0x53435251;    // "SCRQ"
constexpr std::uint32_t kReplyMagic = 0x53435241;      // "SCRA"

static_assert(Key::kSize == crypto_auth_hmacsha512256_KEYBYTES);
static_assert(kProofSize == crypto_auth_hmacsha512256_BYTES);
static_assert(kTagSize == crypto_aead_chacha20poly1305_ietf_ABYTES);

unsigned char* raw(ByteSpan bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }
const unsigned char* raw(ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Puts fields one after the other into a frame of a size known beforehand.
class Writer {
 public:
  explicit Writer(ByteSpan out) : out_(out) {}
  template <std::unsigned_integral T>
  Writer& put(T value) {
    for (std::size_t i = sizeof(T); i-- > 0;)
      out_[at_++] = static_cast<std::byte>(value >> (8 * i));
    return *this;
  }
  Writer& put(ByteView bytes) {
    std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ += bytes.size();
    return *this;
  }

 private:
  ByteSpan out_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}
  template <std::unsigned_integral T>
  Reader& get(T& value) {
    value = read_big_endian<T>(in_);
    in_ = in_.subspan(sizeof(T));
    return *this;
  }
  template <std::size_t Size>
  Reader& get(std::array<std::byte, Size>& bytes) {
    std::copy_n(in_.begin(), Size, bytes.begin());
    in_ = in_.subspan(Size);
    return *this;
  }
  // The first eight bytes of every frame; gives the field of 16 bits that follows the version.
  std::optional<std::uint16_t> start(std::uint32_t magic) {
    std::uint32_t found = 0;
    std::uint16_t version = 0;
    std::uint16_t field = 0;
    get(found).get(version).get(field);
    if (found != magic || version != kProtocolVersion) return std::nullopt;
    return field;
  }

 private:
  ByteView in_;
};

Writer start_frame(ByteSpan out, std::uint32_t magic, std::uint16_t field) {
  Writer writer(out);
  writer.put(magic).put(kProtocolVersion).put(field);
  return writer;
}

// HMAC-SHA-512-256 of a label, so that no value can stand for another, and of both nonces.
void derive(const Key& key, std::string_view label, const Nonce& server, const Nonce& client,
            ByteSpan out) {
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, raw(key.bytes()), Key::kSize);
  crypto_auth_hmacsha512256_update(&state, raw(std::as_bytes(std::span(label))), label.size());
  crypto_auth_hmacsha512256_update(&state, raw(ByteView(server)), server.size());
  crypto_auth_hmacsha512256_update(&state, raw(ByteView(client)), client.size());
  crypto_auth_hmacsha512256_final(&state, raw(out));
  sodium_memzero(&state, sizeof state);
}

using FrameNonce = std::array<std::byte, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

FrameNonce frame_nonce(std::uint64_t number) {
  FrameNonce nonce = {};
  Writer(nonce).put(std::uint32_t{0}).put(number);
  return nonce;
}

}  // namespace

// --- key and endpoint
// ------------------------------------------------------------------------------------------

Result<Key> Key::make() {
  SCR_RETURN_IF_ERROR(prepare_cryptography());
  Key key;
  randombytes_buf(key.bytes_.data(), kSize);
  return key;
}

Result<Key> Key::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() != kSize) {
    return invalid_argument(
        fmt::format("a key of the range service has {} bytes, not {}", kSize, bytes.size()));
  }
  Key key;
  std::copy(bytes.begin(), bytes.end(), key.bytes_.begin());
  return key;
}

std::string Endpoint::to_text() const { return fmt::format("{} {} {}", node, address, port); }

Result<Endpoint> Endpoint::from_text(std::string_view text) {
  const auto words = text::split(text, ' ');
  const auto number = words.size() == 3 ? text::parse_uint(words[2]) : std::nullopt;
  if (!number || words[0].empty() || words[1].empty() || *number == 0 || *number > 0xffff) {
    return corrupt(fmt::format("'{}' is not the place of a range service", text::escape(text)));
  }
  return Endpoint{std::string(words[0]), std::string(words[1]),
                  static_cast<std::uint16_t>(*number)};
}

// --- frames
// ------------------------------------------------------------------------------------------

void write(const Greeting& greeting, ByteSpan out) {
  start_frame(out, kHandshakeMagic, 0).put(greeting.server);
}

void write(const Hello& hello, ByteSpan out) {
  start_frame(out, kHandshakeMagic, 0).put(hello.client).put(hello.proof);
}

void write(const Welcome& welcome, ByteSpan out) {
  start_frame(out, kHandshakeMagic, static_cast<std::uint16_t>(welcome.code)).put(welcome.proof);
}

void write(const Request& request, ByteSpan out) {
  start_frame(out, kRequestMagic, request.kind)
      .put(request.number)
      .put(request.id)
      .put(request.offset)
      .put(request.length)
      .put(std::uint32_t{0});
}

void write(const ReplyHeader& reply, ByteSpan out) {
  start_frame(out, kReplyMagic, reply.code)
      .put(reply.number)
      .put(reply.size)
      .put(reply.identity)
      .put(reply.length)
      .put(reply.crc32);
}

std::optional<Greeting> parse_greeting(ByteView bytes) {
  if (bytes.size() != kGreetingSize) return std::nullopt;
  Reader reader(bytes);
  if (!reader.start(kHandshakeMagic)) return std::nullopt;
  Greeting greeting;
  reader.get(greeting.server);
  return greeting;
}

std::optional<Hello> parse_hello(ByteView bytes) {
  if (bytes.size() != kHelloSize) return std::nullopt;
  Reader reader(bytes);
  if (!reader.start(kHandshakeMagic)) return std::nullopt;
  Hello hello;
  reader.get(hello.client).get(hello.proof);
  return hello;
}

std::optional<Welcome> parse_welcome(ByteView bytes) {
  if (bytes.size() != kWelcomeSize) return std::nullopt;
  Reader reader(bytes);
  const auto code = reader.start(kHandshakeMagic);
  if (!code || *code > static_cast<std::uint16_t>(Code::kBusy)) return std::nullopt;
  Welcome welcome;
  welcome.code = static_cast<Code>(*code);
  reader.get(welcome.proof);
  return welcome;
}

std::optional<Request> parse_request(ByteView bytes) {
  if (bytes.size() != kRequestHeaderSize) return std::nullopt;
  Reader reader(bytes);
  const auto kind = reader.start(kRequestMagic);
  if (!kind) return std::nullopt;
  Request request;
  request.kind = *kind;
  reader.get(request.number).get(request.id).get(request.offset).get(request.length);
  return request;
}

std::optional<ReplyHeader> parse_reply_header(ByteView bytes) {
  if (bytes.size() != kReplyHeaderSize) return std::nullopt;
  Reader reader(bytes);
  const auto code = reader.start(kReplyMagic);
  if (!code) return std::nullopt;
  ReplyHeader reply;
  reply.code = *code;
  reader.get(reply.number).get(reply.size).get(reply.identity).get(reply.length).get(reply.crc32);
  return reply;
}

// --- cryptography
// ------------------------------------------------------------------------------------------

Status prepare_cryptography() {
  static const bool ready = sodium_init() >= 0;
  if (ready) return {};
  return {StatusCode::kUnavailable, "libsodium cannot be used: it finds no random numbers"};
}

Nonce make_nonce() {
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

SessionKeys::SessionKeys(const Key& key, const Nonce& server, const Nonce& client) {
  derive(key, "h5scr range service 1: proof of the client", server, client, client_proof_);
  derive(key, "h5scr range service 1: proof of the server", server, client, server_proof_);
  derive(key, "h5scr range service 1: frames of the client", server, client, client_frames_);
  derive(key, "h5scr range service 1: frames of the server", server, client, server_frames_);
}

SessionKeys::~SessionKeys() {
  sodium_memzero(client_frames_.data(), client_frames_.size());
  sodium_memzero(server_frames_.data(), server_frames_.size());
}

Proof SessionKeys::proof(Side side) const {
  return side == Side::kClient ? client_proof_ : server_proof_;
}

bool SessionKeys::is_proof(Side side, const Proof& claimed) const {
  return sodium_memcmp(proof(side).data(), claimed.data(), claimed.size()) == 0;
}

// The authenticated encryption of nothing, with the frame as additional data: a one-time Poly1305
// key for each number, at memory speed, in one call that is hard to misuse.
void SessionKeys::seal(Side side, std::uint64_t number, ByteView frame, ByteSpan tag) const {
  unsigned char nothing = 0;  // libsodium wants an address
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      &nothing, raw(tag), nullptr, nullptr, 0, raw(frame), frame.size(), nullptr,
      raw(ByteView(frame_nonce(number))), raw(ByteView(frame_key(side))));
}

bool SessionKeys::is_sealed(Side side, std::uint64_t number, ByteView frame, ByteView tag) const {
  if (tag.size() != kTagSize) return false;
  const unsigned char nothing = 0;
  return crypto_aead_chacha20poly1305_ietf_decrypt_detached(
             nullptr, nullptr, &nothing, 0, raw(tag), raw(frame), frame.size(),
             raw(ByteView(frame_nonce(number))), raw(ByteView(frame_key(side)))) == 0;
}

}  // namespace scr::service
