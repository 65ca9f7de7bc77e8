#include "core/service/protocol.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <bit>
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
static_assert(kTagSize == crypto_aead_aes256gcm_ABYTES);
static_assert(crypto_aead_aes256gcm_NPUBBYTES == crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
static_assert(crypto_aead_aes256gcm_KEYBYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

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

// What a connection begins with, known to both sides and to whoever listens.
struct Start {
  const Nonce& server;
  const Nonce& client;
  Cipher cipher;
};

// HMAC-SHA-512-256 of a label, so that no value can stand for another, of the cipher, so that
// nobody can make the sides use two different ones, and of both nonces.
void derive(const Key& key, std::string_view label, const Start& start, ByteSpan out) {
  std::array<std::byte, 2> cipher = {};
  Writer(cipher).put(static_cast<std::uint16_t>(start.cipher));
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, raw(key.bytes()), Key::kSize);
  crypto_auth_hmacsha512256_update(&state, raw(std::as_bytes(std::span(label))), label.size());
  crypto_auth_hmacsha512256_update(&state, raw(ByteView(cipher)), cipher.size());
  crypto_auth_hmacsha512256_update(&state, raw(ByteView(start.server)), start.server.size());
  crypto_auth_hmacsha512256_update(&state, raw(ByteView(start.client)), start.client.size());
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

void write(const Greeting& greeting, ByteSpan out) {
  start_frame(out, kHandshakeMagic, greeting.ciphers).put(greeting.server);
}

void write(const Hello& hello, ByteSpan out) {
  start_frame(out, kHandshakeMagic, hello.cipher).put(hello.client).put(hello.proof);
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
      .put(std::uint32_t{0});
}

std::optional<Greeting> parse_greeting(ByteView bytes) {
  if (bytes.size() != kGreetingSize) return std::nullopt;
  Reader reader(bytes);
  const auto ciphers = reader.start(kHandshakeMagic);
  if (!ciphers) return std::nullopt;
  Greeting greeting;
  greeting.ciphers = *ciphers;
  reader.get(greeting.server);
  return greeting;
}

std::optional<Hello> parse_hello(ByteView bytes) {
  if (bytes.size() != kHelloSize) return std::nullopt;
  Reader reader(bytes);
  const auto cipher = reader.start(kHandshakeMagic);
  if (!cipher) return std::nullopt;
  Hello hello;
  hello.cipher = *cipher;
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
  reader.get(reply.number).get(reply.size).get(reply.identity).get(reply.length);
  return reply;
}

// --- cryptography

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

std::uint16_t ciphers_of_host() {
  const auto all = static_cast<std::uint16_t>(Cipher::kChaCha20Poly1305);
  const auto aes = static_cast<std::uint16_t>(Cipher::kAes256Gcm);
  static const bool has_aes = crypto_aead_aes256gcm_is_available() != 0;
  return has_aes ? all | aes : all;
}

Cipher best_cipher(std::uint16_t others) {
  const bool aes =
      (ciphers_of_host() & others & static_cast<std::uint16_t>(Cipher::kAes256Gcm)) != 0;
  return aes ? Cipher::kAes256Gcm : Cipher::kChaCha20Poly1305;
}

bool is_cipher_of_host(std::uint16_t cipher) {
  return std::has_single_bit(cipher) && (cipher & ciphers_of_host()) != 0;
}

// The authenticated encryption of nothing, with the frame as additional data: a one-time key for
// each number, in one call that is hard to misuse.
struct SessionKeys::FrameKeys {
  using Secret = std::array<std::byte, crypto_aead_chacha20poly1305_ietf_KEYBYTES>;
  struct OfSide {
    Secret secret = {};
    crypto_aead_aes256gcm_state aes = {};  // made of it
  };
  Cipher cipher = Cipher::kChaCha20Poly1305;
  OfSide client;
  OfSide server;

  explicit FrameKeys(Cipher chosen) : cipher(chosen) {}
  ~FrameKeys() {
    for (OfSide* side : {&client, &server}) {
      sodium_memzero(side->secret.data(), side->secret.size());
      sodium_memzero(&side->aes, sizeof side->aes);
    }
  }
  FrameKeys(const FrameKeys&) = delete;
  FrameKeys& operator=(const FrameKeys&) = delete;
  const OfSide& of(Side side) const { return side == Side::kClient ? client : server; }
};

SessionKeys::SessionKeys(const Key& key, const Nonce& server, const Nonce& client, Cipher cipher)
    : frames_(std::make_unique<FrameKeys>(cipher)) {
  const Start start{server, client, cipher};
  derive(key, "h5scr range service 2: proof of the client", start, client_proof_);
  derive(key, "h5scr range service 2: proof of the server", start, server_proof_);
  derive(key, "h5scr range service 2: frames of the client", start, frames_->client.secret);
  derive(key, "h5scr range service 2: frames of the server", start, frames_->server.secret);
  if (cipher != Cipher::kAes256Gcm) return;
  for (FrameKeys::OfSide* side : {&frames_->client, &frames_->server}) {
    crypto_aead_aes256gcm_beforenm(&side->aes, raw(ByteView(side->secret)));
  }
}

SessionKeys::~SessionKeys() = default;

Proof SessionKeys::proof(Side side) const {
  return side == Side::kClient ? client_proof_ : server_proof_;
}

bool SessionKeys::is_proof(Side side, const Proof& claimed) const {
  return sodium_memcmp(proof(side).data(), claimed.data(), claimed.size()) == 0;
}

void SessionKeys::seal(Side side, std::uint64_t number, ByteView frame, ByteSpan tag) const {
  unsigned char nothing = 0;  // libsodium wants an address
  const FrameNonce nonce = frame_nonce(number);
  const FrameKeys::OfSide& keys = frames_->of(side);
  if (frames_->cipher == Cipher::kAes256Gcm) {
    crypto_aead_aes256gcm_encrypt_detached_afternm(&nothing, raw(tag), nullptr, nullptr, 0,
                                                   raw(frame), frame.size(), nullptr,
                                                   raw(ByteView(nonce)), &keys.aes);
    return;
  }
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      &nothing, raw(tag), nullptr, nullptr, 0, raw(frame), frame.size(), nullptr,
      raw(ByteView(nonce)), raw(ByteView(keys.secret)));
}

bool SessionKeys::is_sealed(Side side, std::uint64_t number, ByteView frame, ByteView tag) const {
  if (tag.size() != kTagSize) return false;
  const unsigned char nothing = 0;
  const FrameNonce nonce = frame_nonce(number);
  const FrameKeys::OfSide& keys = frames_->of(side);
  if (frames_->cipher == Cipher::kAes256Gcm) {
    return crypto_aead_aes256gcm_decrypt_detached_afternm(nullptr, nullptr, &nothing, 0, raw(tag),
                                                          raw(frame), frame.size(),
                                                          raw(ByteView(nonce)), &keys.aes) == 0;
  }
  return crypto_aead_chacha20poly1305_ietf_decrypt_detached(
             nullptr, nullptr, &nothing, 0, raw(tag), raw(frame), frame.size(),
             raw(ByteView(nonce)), raw(ByteView(keys.secret))) == 0;
}

}  // namespace scr::service
