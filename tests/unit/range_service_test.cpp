#include "core/service/range_service.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "core/service/protocol.hpp"
#include "core/service/server_session.hpp"
#include "core/shared_file/home.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::service {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr int kPatienceSeconds = 60;  // of the tests, where only a hang would take so long

Bytes random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

template <typename Condition>
bool wait_until(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceSeconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

// A socket without any knowledge of the protocol.
class RawSocket {
 public:
  explicit RawSocket(int descriptor) : descriptor_(descriptor) {
    const timeval patience{kPatienceSeconds, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  explicit RawSocket(const Endpoint& endpoint) : RawSocket(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint.port);
    ::inet_pton(AF_INET, endpoint.address.c_str(), &address.sin_addr);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawSocket() { ::close(descriptor_); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  // The peer may have hung up already.
  void send(ByteView bytes) {
    (void)!::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Fewer bytes if the peer closes before.
  Bytes receive(std::size_t size) {
    Bytes bytes(size);
    std::size_t count = 0;
    while (count < size) {
      const ssize_t got = ::recv(descriptor_, bytes.data() + count, size - count, 0);
      if (got < 0 && errno == EAGAIN) ADD_FAILURE() << "the peer neither sends nor closes";
      if (got <= 0) break;
      count += static_cast<std::size_t>(got);
    }
    bytes.resize(count);
    return bytes;
  }
  bool is_closed_by_peer() { return receive(1).empty(); }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// A client that can send frames as it should not.
class RawClient {
 public:
  RawClient(const Endpoint& endpoint, const Key& key,
            Cipher cipher = best_cipher(ciphers_of_host()),
            const std::function<void()>& before_hello = {})
      : socket_(endpoint) {
    const auto greeting = parse_greeting(socket_.receive(kGreetingSize));
    if (!greeting) return;
    if (before_hello) before_hello();
    const Nonce nonce = make_nonce();
    keys_ = std::make_unique<SessionKeys>(key, greeting->server, nonce, cipher);
    Bytes hello(kHelloSize);
    write(Hello{nonce, keys_->proof(Side::kClient), static_cast<std::uint16_t>(cipher)}, hello);
    socket_.send(hello);
    const auto welcome = parse_welcome(socket_.receive(kWelcomeSize));
    if (welcome) code_ = welcome->code;
  }

  std::optional<Code> code() const { return code_; }
  RawSocket& socket() { return socket_; }
  const SessionKeys& keys() const { return *keys_; }
  Bytes sealed(Request request, std::uint64_t number) {
    request.number = number;
    Bytes bytes(kRequestSize);
    const ByteSpan frame = ByteSpan(bytes).first(kRequestHeaderSize);
    write(request, frame);
    keys_->seal(Side::kClient, number, frame, ByteSpan(bytes).subspan(kRequestHeaderSize));
    return bytes;
  }
  std::optional<ReplyHeader> receive_reply(std::string& text) {
    const auto header = parse_reply_header(socket_.receive(kReplyHeaderSize));
    socket_.receive(kTagSize);
    if (!header || header->length == 0) return header;
    const Bytes rest = socket_.receive(header->length + kTagSize);
    text.assign(reinterpret_cast<const char*>(rest.data()), header->length);
    return header;
  }

 private:
  RawSocket socket_;
  std::unique_ptr<SessionKeys> keys_;
  std::optional<Code> code_;
};

// Listens at a port of its own and does with the first peer what the test says.
class FakeServer {
 public:
  // For one connection after the other.
  explicit FakeServer(std::function<void(RawSocket&)> serve, int connections = 1)
      : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    endpoint_ = {"fake", "127.0.0.1", ntohs(address.sin_port)};
    thread_ = std::thread([this, serve = std::move(serve), connections] {
      for (int i = 0; i < connections; ++i) {
        RawSocket peer(::accept(listener_, nullptr, nullptr));
        if (peer.descriptor() >= 0) serve(peer);
      }
    });
  }
  ~FakeServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  const Endpoint& endpoint() const { return endpoint_; }

 private:
  int listener_;
  Endpoint endpoint_;
  std::thread thread_;
};

class RangeServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { close_idle_connections(); }

  // Makes a file and gives it the id.
  void put(std::uint64_t id, const Bytes& bytes) {
    const std::string path = folder_ / std::to_string(id) + "." + std::to_string(files_++);
    auto file = real_file_system().open(path, OpenOptions::create_truncate());
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    ASSERT_TRUE((*file)->write_all(bytes, 0).ok());
    const std::lock_guard lock(mutex_);
    paths_[id] = path;
  }
  void take_away(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    paths_.erase(id);
  }
  std::string path_of(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    return paths_[id];
  }

  Result<std::unique_ptr<File>> resolve(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = paths_.find(id);
    if (found == paths_.end()) return not_found("no such id");
    return real_file_system().open(found->second, OpenOptions::read());
  }

  std::unique_ptr<RangeServer> serve(ServerOptions options = {}) {
    options.node = "node7";
    auto server = RangeServer::start(
        "127.0.0.1", key_, [this](std::uint64_t id) { return resolve(id); }, options);
    EXPECT_TRUE(server.ok()) << server.status().to_string();
    return std::move(server).value();
  }

  // Without blocks kept in memory, so that each read asks the server.
  static RemoteOptions uncached() {
    RemoteOptions options;
    options.cached_blocks = 0;
    return options;
  }

  std::unique_ptr<File> open(const RangeServer& server, std::uint64_t id,
                             const RemoteOptions& options = {}) {
    auto file = open_remote(server.endpoint(), key_, id, options);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return std::move(file).value();
  }

  static void expect_read(File& file, const Bytes& all, std::uint64_t offset, std::size_t size) {
    Bytes buffer(size);
    const auto count = file.read(buffer, offset);
    ASSERT_TRUE(count.ok()) << count.status().to_string();
    const std::size_t there = offset < all.size() ? all.size() - offset : 0;
    ASSERT_EQ(*count, std::min(size, there)) << "at " << offset;
    ASSERT_TRUE(std::equal(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*count),
                           all.begin() + static_cast<std::ptrdiff_t>(std::min(offset, all.size()))))
        << size << " bytes at " << offset;
  }

  testing::TemporaryDirectory folder_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::string> paths_;
  int files_ = 0;
  Key key_ = Key::make().value();
};

// --- reading

TEST_F(RangeServiceTest, GivesTheBytesOfAFileAtAnyOffset) {
  const Bytes bytes = random_bytes(3'000'001, 1);
  put(1, bytes);
  const auto server = serve();
  std::mt19937 random(2);
  for (const std::size_t blocks : {0, 1, 2, 64}) {
    RemoteOptions options;
    options.cached_blocks = blocks;
    const auto file = open(*server, 1, options);
    EXPECT_EQ(file->info()->size, bytes.size());
    expect_read(*file, bytes, 0, bytes.size());
    expect_read(*file, bytes, 0, bytes.size() + 10);
    expect_read(*file, bytes, bytes.size(), 10);
    expect_read(*file, bytes, bytes.size() + 5, 10);
    for (int i = 0; i < 200; ++i) {
      const std::size_t size = std::size_t{1} << (random() % 21);
      expect_read(*file, bytes, random() % bytes.size(), size);
    }
    Bytes one(1);
    EXPECT_EQ(file->read(one, ~std::uint64_t{0}).value(), 0U);
    EXPECT_EQ(file->read({}, 0).value(), 0U);
  }
}

TEST_F(RangeServiceTest, ReadsAnEmptyFile) {
  put(1, {});
  const auto server = serve();
  expect_read(*open(*server, 1), {}, 0, 10);
  expect_read(*open(*server, 1, uncached()), {}, 0, 10);
}

TEST_F(RangeServiceTest, ReadsBeyondFourGigabytesOfASparseFile) {
  const Bytes bytes = random_bytes(200'000, 3);
  const std::uint64_t start = (std::uint64_t{5} << 30U) + 123;
  put(1, {});
  auto local = real_file_system().open(path_of(1), OpenOptions::read_write());
  ASSERT_TRUE((*local)->write_all(bytes, start).ok());
  const auto server = serve();
  for (const auto& options : {RemoteOptions{}, uncached()}) {
    const auto file = open(*server, 1, options);
    EXPECT_EQ(file->info()->size, start + bytes.size());
    Bytes buffer(1000);
    ASSERT_TRUE(file->read_exactly(buffer, start + 777).ok());
    EXPECT_TRUE(std::equal(buffer.begin(), buffer.end(), bytes.begin() + 777));
    ASSERT_TRUE(file->read_exactly(buffer, std::uint64_t{1} << 32U).ok());
    EXPECT_EQ(buffer, Bytes(1000));
    EXPECT_EQ(file->read(buffer, start + bytes.size() - 10).value(), 10U);
  }
}

TEST_F(RangeServiceTest, ServesManyThreadsOnManyFilesAtOnce) {
  std::vector<Bytes> contents;
  for (unsigned id = 0; id < 4; ++id) {
    contents.push_back(random_bytes(1'500'000 + id, id));
    put(id, contents.back());
  }
  const auto server = serve();
  const auto shared = open(*server, 0);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 12; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      const auto own = open(*server, t % 4);
      for (int i = 0; i < 40; ++i) {
        const bool use_shared = i % 2 == 0;
        const Bytes& bytes = contents[use_shared ? 0 : t % 4];
        expect_read(use_shared ? *shared : *own, bytes, random() % bytes.size(),
                    random() % 300'000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RangeServiceTest, ReadsAheadForSmallReadsThatFollowEachOther) {
  const Bytes bytes = random_bytes(4 << 20U, 4);
  put(1, bytes);
  const auto server = serve();
  const auto file = open(*server, 1);
  for (std::size_t at = 0; at < bytes.size(); at += 512) expect_read(*file, bytes, at, 512);
  EXPECT_LT(server->counts().requests, 20U);
  const auto before = server->counts().requests;
  for (int i = 0; i < 100; ++i) expect_read(*file, bytes, bytes.size() - 5000, 100);
  EXPECT_EQ(server->counts().requests, before);
}

TEST_F(RangeServiceTest, WithoutCacheSeesWhatIsWrittenWhileItIsOpen) {
  put(1, Bytes(10));
  const auto server = serve();
  const auto file = open(*server, 1, uncached());
  auto local = real_file_system().open(path_of(1), OpenOptions::read_write());
  const Bytes more = random_bytes(100, 5);
  ASSERT_TRUE((*local)->write_all(more, 5).ok());
  Bytes buffer(200);
  ASSERT_EQ(file->read(buffer, 5).value(), 100U);
  buffer.resize(100);
  EXPECT_EQ(buffer, more);
  EXPECT_EQ(file->info()->size, 105U);
}

TEST_F(RangeServiceTest, CannotBeWritten) {
  put(1, Bytes(10));
  const auto server = serve();
  const auto file = open(*server, 1);
  EXPECT_EQ(file->write_all(Bytes(1), 0).errno_value(), EROFS);
  EXPECT_EQ(file->truncate(0).errno_value(), EROFS);
  EXPECT_FALSE(file->allocate(0, 1).ok());
  EXPECT_FALSE(file->set_mode(0777).ok());
  EXPECT_FALSE(file->map(0, 1).ok());
  EXPECT_FALSE(file->lock(LockMode::kShared, false).ok());
  EXPECT_EQ(file->descriptor(), -1);
  EXPECT_TRUE(file->close().ok());
  Bytes one(1);
  EXPECT_FALSE(file->read(one, 0).ok());
  EXPECT_EQ(real_file_system().read_file(path_of(1)).value(), Bytes(10));
}

// --- files that go or change

TEST_F(RangeServiceTest, SaysThatAnIdIsUnknown) {
  const auto server = serve();
  const auto file = open_remote(server->endpoint(), key_, 99);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(file.status().message(), HasSubstr("node7"));
  EXPECT_THAT(file.status().message(), HasSubstr("no such id"));
  EXPECT_EQ(server->counts().refused, 0U);
}

TEST_F(RangeServiceTest, DoesNotReadAWithdrawnFile) {
  const Bytes bytes = random_bytes(3 << 20U, 6);
  put(1, bytes);
  put(2, bytes);
  const auto server = serve();
  const auto file = open(*server, 1);
  take_away(1);
  Bytes buffer(bytes.size());
  EXPECT_EQ(file->read(buffer, 0).status().code(), StatusCode::kNotFound);
  expect_read(*open(*server, 2), bytes, 0, bytes.size());  // the connection is fit for use
}

TEST_F(RangeServiceTest, RefusesToMixTwoFilesOfOneId) {
  put(1, Bytes(1000));
  const auto server = serve();
  const auto file = open(*server, 1, uncached());
  const Bytes other = random_bytes(1000, 7);
  put(1, other);
  Bytes buffer(10);
  const auto count = file->read(buffer, 0);
  EXPECT_EQ(count.status().code(), StatusCode::kFailedPrecondition) << count.status().to_string();
  expect_read(*open(*server, 1), other, 0, 1000);
}

// HDF5 takes files with the same numbers for one, and reads the first for both.
TEST_F(RangeServiceTest, FilesOfSeveralNodesAreToldApartByTheirIds) {
  put(1, random_bytes(10, 1));
  {
    const std::lock_guard lock(mutex_);
    paths_[2] = paths_[1];  // as a file of another node that happens to have the same inode
  }
  const auto server = serve();
  const auto numbers = [&](std::uint64_t id) {
    const FileInfo info = open(*server, id)->info().value();
    return std::pair(info.device, info.inode);
  };
  EXPECT_NE(numbers(1), numbers(2));
  EXPECT_EQ(numbers(1), numbers(1));
  const FileInfo real = real_file_system().info(path_of(1)).value();
  EXPECT_NE(numbers(1).first, dev_t{0});
  EXPECT_NE(numbers(1).first, real.device);
}

// --- who may read

TEST_F(RangeServiceTest, RefusesAClientWithAnotherKey) {
  put(1, Bytes(10));
  const auto server = serve();
  const auto file = open_remote(server->endpoint(), Key::make().value(), 1);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(file.status().message(), HasSubstr("another job"));
  EXPECT_EQ(server->counts().refused, 1U);
  EXPECT_TRUE(probe(server->endpoint(), key_).ok());
}

TEST_F(RangeServiceTest, RefusesAServerThatOnlyPretendsToHaveTheKey) {
  const FakeServer server([](RawSocket& peer) {
    Bytes bytes(kGreetingSize);
    write(Greeting{make_nonce()}, bytes);
    peer.send(bytes);
    const auto hello = parse_hello(peer.receive(kHelloSize));
    ASSERT_TRUE(hello);
    bytes.resize(kWelcomeSize);
    write(Welcome{Code::kOk, hello->proof}, bytes);  // sends back what it was shown
    peer.send(bytes);
    EXPECT_TRUE(peer.is_closed_by_peer());
  });
  const Status status = probe(server.endpoint(), key_);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr("does not have the key"));
}

TEST_F(RangeServiceTest, NoticesAReplyThatWasChangedOnItsWay) {
  put(1, random_bytes(1000, 8));
  const Resolver resolver = [this](std::uint64_t id) { return resolve(id); };
  for (const std::size_t position :
       {0U, 6U, 10U, 20U, 30U, 35U, 38U, 40U, 55U, 56U, 500U, 1055U, 1056U, 1071U}) {
    const FakeServer server([&](RawSocket& peer) {
      ServerSession session(key_, resolver);
      peer.send(session.greeting());
      Bytes buffer(kMaxReplySize);
      for (int turn = 0; turn < 3; ++turn) {  // hello, stat, read
        const auto outcome = session.take(peer.receive(session.wants()), false, buffer);
        if (turn == 2) buffer[position] ^= std::byte{1};
        peer.send(ByteView(buffer).first(outcome.reply));
      }
    });
    auto file = open_remote(server.endpoint(), key_, 1, uncached());
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    Bytes data(1000);
    EXPECT_EQ((*file)->read(data, 0).status().code(), StatusCode::kCorrupt) << position;
    close_idle_connections();
  }
}

TEST_F(RangeServiceTest, NoticesAnAnswerThatWasChangedOnItsWay) {
  const Handler handler = [](std::span<const std::byte> request) -> Result<Bytes> {
    return Bytes(request.begin(), request.end());
  };
  const Resolver resolver;
  for (const std::size_t position : {10U, 55U, 56U, 150U, 156U}) {
    const FakeServer server([&](RawSocket& peer) {
      ServerSession session(key_, resolver, handler);
      peer.send(session.greeting());
      Bytes buffer(kMaxReplySize);
      for (int turn = 0; turn < 3; ++turn) {  // hello, head and rest of the call
        const auto outcome = session.take(peer.receive(session.wants()), false, buffer);
        if (turn == 2) buffer[position] ^= std::byte{1};
        peer.send(ByteView(buffer).first(outcome.reply));
      }
    });
    const Call calls[] = {{server.endpoint(), random_bytes(100, 1)}};
    RemoteOptions options;
    options.connect_timeout = milliseconds(1000);
    EXPECT_EQ(call(calls, key_, options)[0].status().code(), StatusCode::kCorrupt) << position;
    close_idle_connections();
  }
}

TEST_F(RangeServiceTest, ACallWhoseAnswerIsLostIsSentAgainAndDoneOnce) {
  shared_file::Home home;
  int handled = 0;
  const Handler handler = [&](std::span<const std::byte> request) {
    ++handled;
    return home.handle(request);
  };
  const Resolver resolver;
  int connections = 0;
  const FakeServer server(
      [&](RawSocket& peer) {
        const bool loses = ++connections == 1;
        ServerSession session(key_, resolver, handler);
        peer.send(session.greeting());
        Bytes buffer(kMaxReplySize);
        for (int turn = 0; turn < 5; ++turn) {  // hello, then head and rest of calls
          const auto outcome = session.take(peer.receive(session.wants()), false, buffer);
          if (!loses || turn < 4) peer.send(ByteView(buffer).first(outcome.reply));
        }
      },
      /*connections=*/2);
  const shared_file::Homes homes(1, [&](const auto& messages) {
    const Call calls[] = {{server.endpoint(), messages.front().request}};
    return call(calls, key_);
  });
  ASSERT_TRUE(homes.create(1, 0).ok());
  EXPECT_EQ(*homes.add_to_pointer(1, 3), 0U);  // the first answer is lost
  EXPECT_EQ(*homes.add_to_pointer(1, 3), 3U);
  EXPECT_EQ(handled, 4);
  close_idle_connections();
}

// --- ciphers ---

TEST(RangeServiceCiphers, EachSealsAFrameForOnePlaceOnly) {
  ASSERT_TRUE(prepare_cryptography().ok());
  const Key key = Key::make().value();
  const Nonce server = make_nonce();
  const Nonce client = make_nonce();
  for (const Cipher cipher : {Cipher::kChaCha20Poly1305, Cipher::kAes256Gcm}) {
    if (!is_cipher_of_host(static_cast<std::uint16_t>(cipher))) continue;
    const SessionKeys keys(key, server, client, cipher);
    for (const std::size_t size : {0U, 1U, 40U, 1000U, 1U << 20U}) {
      Bytes frame = random_bytes(size, 1);
      Bytes tag(kTagSize);
      keys.seal(Side::kServer, 5, frame, tag);
      EXPECT_TRUE(keys.is_sealed(Side::kServer, 5, frame, tag));
      EXPECT_FALSE(keys.is_sealed(Side::kClient, 5, frame, tag));
      EXPECT_FALSE(keys.is_sealed(Side::kServer, 6, frame, tag));
      EXPECT_FALSE(keys.is_sealed(Side::kServer, payload_number(5), frame, tag));
      EXPECT_FALSE(
          SessionKeys(key, client, server, cipher).is_sealed(Side::kServer, 5, frame, tag));
      if (size == 0) continue;
      frame[size / 2] ^= std::byte{0x10};
      EXPECT_FALSE(keys.is_sealed(Side::kServer, 5, frame, tag));
    }
  }
}

// Nobody in between can make them use two different ones.
TEST(RangeServiceCiphers, ThoseOfAConnectionArePartOfItsProofs) {
  if (best_cipher(ciphers_of_host()) != Cipher::kAes256Gcm) return;  // there is but one here
  const Key key = Key::make().value();
  const SessionKeys one(key, {}, {}, Cipher::kChaCha20Poly1305);
  const SessionKeys other(key, {}, {}, Cipher::kAes256Gcm);
  for (const Side side : {Side::kClient, Side::kServer}) {
    EXPECT_FALSE(other.is_proof(side, one.proof(side)));
  }
}

TEST(RangeServiceCiphers, TheFirstIsUsedIfTheOtherSideHasNoOther) {
  EXPECT_EQ(best_cipher(1), Cipher::kChaCha20Poly1305);
  EXPECT_EQ(best_cipher(0), Cipher::kChaCha20Poly1305);
  EXPECT_EQ(best_cipher(0xfffc), Cipher::kChaCha20Poly1305);
  for (const int none : {0, 3, 4, 0x8000}) {
    EXPECT_FALSE(is_cipher_of_host(static_cast<std::uint16_t>(none))) << none;
  }
}

TEST_F(RangeServiceTest, ServesAClientThatHasTheFirstCipherOnly) {
  const Bytes bytes = random_bytes(1000, 14);
  put(1, bytes);
  const auto server = serve();
  RawClient client(server->endpoint(), key_, Cipher::kChaCha20Poly1305);
  ASSERT_EQ(client.code(), Code::kOk);
  client.socket().send(client.sealed({.kind = 2, .id = 1, .length = 1000}, 0));
  const Bytes reply = client.socket().receive(kReplySize + 1000 + kTagSize);
  ASSERT_EQ(reply.size(), kReplySize + 1000 + kTagSize);
  const ByteView data = ByteView(reply).subspan(kReplySize, 1000);
  EXPECT_TRUE(client.keys().is_sealed(Side::kServer, payload_number(0), data,
                                      ByteView(reply).last(kTagSize)));
  EXPECT_EQ(Bytes(data.begin(), data.end()), bytes);
}

TEST_F(RangeServiceTest, HangsUpOnACipherThatIsNone) {
  const auto server = serve();
  for (const unsigned number : {0U, 3U, 4U, 0xffffU}) {
    const auto cipher = static_cast<std::uint16_t>(number);
    RawSocket socket(server->endpoint());
    const auto greeting = parse_greeting(socket.receive(kGreetingSize));
    ASSERT_TRUE(greeting);
    const Nonce nonce = make_nonce();
    const SessionKeys keys(key_, greeting->server, nonce, static_cast<Cipher>(cipher));
    Bytes hello(kHelloSize);
    write(Hello{nonce, keys.proof(Side::kClient), cipher}, hello);
    socket.send(hello);
    EXPECT_TRUE(socket.is_closed_by_peer());
  }
  EXPECT_EQ(server->counts().refused, 4U);
}

TEST_F(RangeServiceTest, RefusesARequestThatIsTooLong) {
  put(1, Bytes(10));
  const auto server = serve();
  RawClient client(server->endpoint(), key_);
  ASSERT_EQ(client.code(), Code::kOk);
  client.socket().send(client.sealed({.kind = 2, .id = 1, .length = kMaxRead + 1}, 0));
  std::string text;
  const auto reply = client.receive_reply(text);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->code, static_cast<std::uint16_t>(Code::kBadRequest));
  EXPECT_THAT(text, HasSubstr("too many"));
  EXPECT_TRUE(client.socket().is_closed_by_peer());
  EXPECT_EQ(server->counts().refused, 1U);
}

TEST_F(RangeServiceTest, RefusesARequestOfNoKnownKind) {
  const auto server = serve();
  RawClient client(server->endpoint(), key_);
  client.socket().send(client.sealed({.kind = 9, .id = 1, .length = 1}, 0));
  std::string text;
  EXPECT_EQ(client.receive_reply(text)->code, static_cast<std::uint16_t>(Code::kBadRequest));
  EXPECT_TRUE(client.socket().is_closed_by_peer());
}

TEST_F(RangeServiceTest, HangsUpOnARequestSentTwice) {
  put(1, Bytes(10));
  const auto server = serve();
  RawClient client(server->endpoint(), key_);
  const Bytes request = client.sealed({.kind = 2, .id = 1, .length = 10}, 0);
  client.socket().send(request);
  std::string text;
  EXPECT_EQ(client.receive_reply(text)->code, 0);
  client.socket().send(request);
  EXPECT_TRUE(client.socket().is_closed_by_peer());
}

TEST_F(RangeServiceTest, HangsUpOnGarbageAndGoesOnServing) {
  const Bytes bytes = random_bytes(100'000, 9);
  put(1, bytes);
  const auto server = serve();
  for (unsigned seed = 0; seed < 50; ++seed) {
    RawSocket stranger(server->endpoint());
    stranger.send(random_bytes(kHelloSize + seed, seed));
    stranger.receive(kGreetingSize);
    EXPECT_TRUE(stranger.is_closed_by_peer());
    RawClient client(server->endpoint(), key_);
    ASSERT_EQ(client.code(), Code::kOk);
    client.socket().send(random_bytes(kRequestSize + seed, seed));
    EXPECT_TRUE(client.socket().is_closed_by_peer());
  }
  EXPECT_EQ(server->counts().refused, 100U);
  expect_read(*open(*server, 1), bytes, 0, bytes.size());
}

TEST_F(RangeServiceTest, ForgetsPeersThatLeaveInTheMiddleOfAFrame) {
  put(1, Bytes(10));
  const auto server = serve();
  for (std::size_t size = 0; size < kRequestSize; size += 11) {
    RawSocket stranger(server->endpoint());
    stranger.send(Bytes(size));
    RawClient client(server->endpoint(), key_);
    client.socket().send(Bytes(client.sealed({.kind = 1, .id = 1}, 0)).size() > size ? Bytes(size)
                                                                                     : Bytes());
  }
  EXPECT_TRUE(
      wait_until([&] { return server->counts().strangers == 0 && server->counts().clients == 0; }));
}

// --- too many, too slow

TEST_F(RangeServiceTest, IsNotExhaustedByPeersThatSayNothing) {
  const Bytes bytes = random_bytes(100'000, 10);
  put(1, bytes);
  ServerOptions options;
  options.most_strangers = 8;
  options.stranger_timeout = std::chrono::hours(1);
  const auto server = serve(options);
  std::list<RawSocket> silent;
  for (int i = 0; i < 300; ++i) {
    silent.emplace_back(server->endpoint());
    if (i % 2 == 0) silent.back().send(Bytes(static_cast<std::size_t>(i) % kHelloSize));
    if (i % 20 != 0) continue;
    close_idle_connections();
    expect_read(*open(*server, 1), bytes, 0, bytes.size());
    EXPECT_LE(server->counts().strangers, 8U);
  }
  silent.front().receive(kGreetingSize);
  EXPECT_TRUE(silent.front().is_closed_by_peer());
}

TEST_F(RangeServiceTest, DropsStrangersWhenTheirTimeIsUp) {
  ServerOptions options;
  options.stranger_timeout = milliseconds(50);
  const auto server = serve(options);
  RawSocket silent(server->endpoint());
  EXPECT_EQ(silent.receive(kGreetingSize + 1).size(), kGreetingSize);
  EXPECT_TRUE(wait_until([&] { return server->counts().strangers == 0; }));
}

TEST_F(RangeServiceTest, DropsIdleClientsWhichThenConnectAgain) {
  const Bytes bytes = random_bytes(1000, 11);
  put(1, bytes);
  ServerOptions options;
  options.idle_timeout = milliseconds(50);
  options.stranger_timeout = milliseconds(5000);
  const auto server = serve(options);
  const auto file = open(*server, 1, uncached());
  for (int i = 0; i < 3; ++i) {
    expect_read(*file, bytes, 0, 1000);
    EXPECT_TRUE(wait_until([&] { return server->counts().clients == 0; }));
  }
  EXPECT_GE(server->counts().accepted, 3U);
}

TEST_F(RangeServiceTest, MakesRoomForANewClientByDroppingTheOneIdleForLongest) {
  put(1, Bytes(10));
  ServerOptions options;
  options.most_clients = 2;
  options.least_idle = milliseconds(0);
  const auto server = serve(options);
  RawClient first(server->endpoint(), key_);
  RawClient second(server->endpoint(), key_);
  ASSERT_TRUE(probe(server->endpoint(), key_).ok());
  EXPECT_TRUE(first.socket().is_closed_by_peer());
  EXPECT_EQ(server->counts().clients, 2U);
}

TEST_F(RangeServiceTest, TellsAClientToComeAgainIfAllOthersAreBusy) {
  const Bytes bytes = random_bytes(1 << 20U, 12);
  put(1, bytes);
  ServerOptions options;
  options.most_clients = 1;
  const auto server = serve(options);
  auto busy = std::make_unique<RawClient>(server->endpoint(), key_);
  // It asks for more than the kernel buffers, and takes none of it.
  for (std::uint64_t i = 0; i < 64; ++i) {
    busy->socket().send(busy->sealed({.kind = 2, .id = 1, .length = kMaxRead}, i));
  }
  ASSERT_TRUE(
      wait_until([&] { return RawClient(server->endpoint(), key_).code() == Code::kBusy; }));
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    busy.reset();
  });
  EXPECT_TRUE(probe(server->endpoint(), key_).ok());
  later.join();
}

// The dropped one has sent its next request already, which the server has in its hands.
TEST_F(RangeServiceTest, DropsAnIdleClientWhoseNextRequestHasArrived) {
  put(1, Bytes(10));
  ServerOptions options;
  options.most_clients = 1;
  options.least_idle = milliseconds(0);
  const auto server = serve(options);
  for (int round = 0; round < 10; ++round) {
    RawClient first(server->endpoint(), key_);
    ASSERT_EQ(first.code(), Code::kOk);
    Bytes requests = first.sealed({.kind = 2, .id = 1, .length = 10}, 0);
    const Bytes next = first.sealed({.kind = 2, .id = 1, .length = 10}, 1);
    requests.insert(requests.end(), next.begin(), next.end());
    std::thread holder;
    RawClient second(server->endpoint(), key_, best_cipher(ciphers_of_host()), [&] {
      std::promise<void> held;
      holder = std::thread([&] {
        const std::lock_guard lock(mutex_);  // the server waits in resolve()
        held.set_value();
        std::this_thread::sleep_for(milliseconds(40));
      });
      held.get_future().wait();
      first.socket().send(requests);
      std::this_thread::sleep_for(milliseconds(10));
    });
    holder.join();
    EXPECT_TRUE(second.code() == Code::kOk || second.code() == Code::kBusy);
  }
  EXPECT_TRUE(wait_until([&] { return server->counts().clients == 0; }));
  expect_read(*open(*server, 1), Bytes(10), 0, 10);
}

// --- servers that die

TEST_F(RangeServiceTest, ClientsGetAnErrorWhenTheServerStopsWhileTheyRead) {
  put(1, Bytes(8 << 20U));
  auto server = serve();
  const Endpoint endpoint = server->endpoint();
  std::atomic<int> reading = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      const auto file = open(*server, 1, uncached());
      Bytes buffer(8 << 20U);
      ++reading;
      Status status;
      while (status.ok()) {
        const auto count = file->read(buffer, 0);
        status = count.status();
      }
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.to_string();
      EXPECT_THAT(status.message(), HasSubstr("node 'node7'"));
    });
  }
  EXPECT_TRUE(wait_until([&] { return reading == 6 && server->counts().requests > 20; }));
  server.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(open_remote(endpoint, key_, 1).status().code(), StatusCode::kUnavailable);
}

TEST_F(RangeServiceTest, SaysThatANodeDoesNotAnswer) {
  const Endpoint nobody = [&] { return serve()->endpoint(); }();
  const Status refused = probe(nobody, key_);
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("node 'node7' (127.0.0.1 port"));
  EXPECT_THAT(refused.message(), HasSubstr("does not answer: Connection refused"));

  std::promise<void> done;
  const FakeServer silent([&](RawSocket&) { done.get_future().wait(); });
  RemoteOptions options;
  options.connect_timeout = milliseconds(100);
  EXPECT_THAT(probe(silent.endpoint(), key_, options).message(), HasSubstr("time is up"));
  done.set_value();
}

TEST_F(RangeServiceTest, GivesUpWhenAReplyDoesNotCome) {
  put(1, Bytes(10));
  std::promise<void> done;
  const Resolver resolver = [&](std::uint64_t id) { return resolve(id); };
  const FakeServer hanging([&](RawSocket& peer) {
    ServerSession session(key_, resolver);
    peer.send(session.greeting());
    Bytes buffer(kMaxReplySize);
    const auto outcome = session.take(peer.receive(session.wants()), false, buffer);
    peer.send(ByteView(buffer).first(outcome.reply));
    done.get_future().wait();
  });
  RemoteOptions options;
  options.reply_timeout = milliseconds(100);
  const auto file = open_remote(hanging.endpoint(), key_, 1, options);
  EXPECT_EQ(file.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(file.status().message(), HasSubstr("time is up"));
  done.set_value();
}

TEST_F(RangeServiceTest, CannotListenAtAnAddressOfAnotherHost) {
  const auto server = RangeServer::start("192.0.2.1", key_, nullptr);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.status().message(), HasSubstr("192.0.2.1"));
  EXPECT_FALSE(RangeServer::start("no address", key_, nullptr).ok());
}

TEST_F(RangeServiceTest, AChildAfterAForkOpensItsOwn) {
  const Bytes bytes = random_bytes(1000, 13);
  put(1, bytes);
  auto server = serve();
  auto file = open(*server, 1, uncached());
  const pid_t child = ::fork();
  if (child == 0) {
    Bytes buffer(1000);
    const bool parents = file->read(buffer, 0).ok();
    auto own = open_remote(server->endpoint(), key_, 1);
    const bool equal = own.ok() && (*own)->read_exactly(buffer, 0).ok() && buffer == bytes;
    server.reset();  // must not wait for a thread that is not there
    ::_exit(!parents && equal ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_read(*file, bytes, 0, 1000);
}

TEST(RangeServiceKey, HasThirtyTwoBytes) {
  const Key key = Key::make().value();
  EXPECT_EQ(Key::from_bytes(key.bytes()).value(), key);
  EXPECT_NE(Key::make().value(), key);
  EXPECT_FALSE(Key::from_bytes(Bytes(31)).ok());
}

TEST(RangeServiceEndpoint, GoesThroughText) {
  const Endpoint endpoint{"node3", "10.0.0.3", 4711};
  EXPECT_EQ(Endpoint::from_text(endpoint.to_text()).value(), endpoint);
  for (const char* text : {"", "a b", "a b 0", "a b 65536", "a b 1 ", " b 1", "a  1", "a b x"}) {
    EXPECT_FALSE(Endpoint::from_text(text).ok()) << text;
  }
}

}  // namespace
}  // namespace scr::service
