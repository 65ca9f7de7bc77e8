// Fuzzes the server's side of the range service: no bytes of a stranger get an answer but a
// refusal, and no request of a client, however odd, gets more than it may.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/service/server_session.hpp"

namespace {

using namespace scr::service;

constexpr std::uint64_t kFileSize = 5000;

// A file of zeros, without a disk.
class ZeroFile : public scr::File {
 public:
  scr::Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    if (offset >= kFileSize) return std::size_t{0};
    const std::size_t count = std::min<std::uint64_t>(buffer.size(), kFileSize - offset);
    std::fill_n(buffer.begin(), count, std::byte{0});
    return count;
  }
  scr::Result<scr::FileInfo> info() override {
    scr::FileInfo info;
    info.size = kFileSize;
    return info;
  }
  scr::Result<std::size_t> write_some(std::span<const std::byte>, std::uint64_t) override {
    std::abort();
  }
  scr::Status truncate(std::uint64_t) override { std::abort(); }
  scr::Status allocate(std::uint64_t, std::uint64_t) override { std::abort(); }
  scr::Status sync() override { std::abort(); }
  scr::Status set_mode(mode_t) override { std::abort(); }
  scr::Result<scr::Mapping> map(std::uint64_t, std::size_t) override { std::abort(); }
  scr::Status lock(scr::LockMode, bool) override { std::abort(); }
  scr::Status unlock() override { std::abort(); }
  scr::Status close() override { return {}; }
  const std::string& path() const override { return path_; }
  int descriptor() const override { return -1; }

 private:
  std::string path_ = "zeros";
};

scr::Result<std::unique_ptr<scr::File>> resolve(std::uint64_t id) {
  if (id % 2 == 0) return scr::not_found("no such id");
  return std::unique_ptr<scr::File>(std::make_unique<ZeroFile>());
}

void check(bool condition) {
  if (!condition) std::abort();
}

// What the input says, as a stranger would send it.
void as_stranger(const Key& key, const Resolver& resolver, ByteView input, ByteSpan buffer) {
  ServerSession session(key, resolver);
  if (input.size() < session.wants()) return;
  const auto outcome = session.take(input.first(session.wants()), false, buffer);
  check(outcome.close && outcome.refused && !session.is_client());
  check(outcome.reply == 0 || parse_welcome(buffer.first(outcome.reply))->code == Code::kWrongKey);
}

void check_reply(const SessionKeys& keys, const std::optional<Request>& request,
                 std::uint64_t number, ByteView reply) {
  check(request && request->number == number);
  const auto header = parse_reply_header(reply.first(kReplyHeaderSize));
  check(header && header->number == number && reply.size() <= kMaxReplySize);
  check(keys.is_sealed(Side::kServer, number, reply.first(kReplyHeaderSize),
                       reply.subspan(kReplyHeaderSize, kTagSize)));
  check(reply.size() == kReplySize + (header->length > 0 ? header->length + kTagSize : 0));
  check(header->length == 0 ||
        keys.is_sealed(Side::kServer, payload_number(number),
                       reply.subspan(kReplySize, header->length), reply.last(kTagSize)));
  if (header->code != 0) return;
  check(request->id % 2 == 1 && header->length <= request->length && header->length <= kMaxRead);
}

// As requests of a client that has the key: with and without a right seal.
void as_client(const Key& key, const Resolver& resolver, ByteView input, ByteSpan buffer) {
  ServerSession session(key, resolver);
  const Nonce nonce = make_nonce();
  const auto greeting = parse_greeting(session.greeting());
  const Cipher cipher = best_cipher(greeting->ciphers);
  const SessionKeys keys(key, greeting->server, nonce, cipher);
  std::array<std::byte, kHelloSize> hello = {};
  write(Hello{nonce, keys.proof(Side::kClient), static_cast<std::uint16_t>(cipher)}, hello);
  check(!session.take(hello, false, buffer).close && session.is_client());
  for (std::uint64_t number = 0; input.size() > kRequestHeaderSize; ++number) {
    const bool sealed = input[0] != std::byte{0};
    std::array<std::byte, kRequestSize> bytes = {};
    std::copy_n(input.begin() + 1, kRequestHeaderSize, bytes.begin());
    const ByteSpan frame = ByteSpan(bytes).first(kRequestHeaderSize);
    if (sealed)
      keys.seal(Side::kClient, number, frame, ByteSpan(bytes).subspan(kRequestHeaderSize));
    const auto outcome = session.take(bytes, false, buffer);
    check(sealed || (outcome.close && outcome.reply == 0));
    if (outcome.reply > 0) {
      check_reply(keys, parse_request(frame), number, buffer.first(outcome.reply));
    }
    if (outcome.close) return;
    input = input.subspan(1 + kRequestHeaderSize);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Key key = Key::make().value();
  static const Resolver resolver = resolve;
  static std::vector<std::byte> buffer(kMaxReplySize);
  const ByteView input = std::as_bytes(std::span(data, size));
  as_stranger(key, resolver, input, buffer);
  as_client(key, resolver, input, buffer);
  (void)parse_greeting(input);
  (void)parse_welcome(input);
  return 0;
}
