// The transfer file, by which a job tells scr_transfer what to copy, and the job's side of it.
#include "flush/transfer_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flush/transfer_client.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::flush {
namespace {

using scr::testing::TemporaryDirectory;
using ::testing::HasSubstr;

Transfer sample_transfer(int dataset) {
  Transfer transfer;
  transfer.dataset = dataset;
  transfer.created = 1234567890;
  transfer.rank = 3;
  transfer.bytes_per_second = 52428800;
  transfer.percent = 12.5;
  transfer.mode = 0640;
  transfer.tasks.push_back({{"/cache/a", 10, 0x12345678, {{"/prefix/.a.tmp", 0, 10, 0}}}, 4});
  transfer.tasks.push_back(
      {{"/cache/b", 30, 7, {{"/prefix/c0", 90, 10, 0}, {"/prefix/c1", 0, 20, 0}}}, 0});
  transfer.tasks.push_back({{"/cache/empty", 0, 0, {}}, 0});
  return transfer;
}

TransferFile sample() {
  TransferFile file;
  file.command = TransferCommand::kRun;
  file.state = TransferState::kRunning;
  file.put(sample_transfer(8));
  file.put(sample_transfer(9));
  file.transfers[0].done = true;
  file.transfers[0].tasks[1].copy.pieces[1].crc = 0xabcdef;
  file.transfers[1].error = "no space";
  return file;
}

std::string refusal(const Hash& hash) {
  const auto file = TransferFile::from_hash(hash);
  if (file.ok()) return "accepted";
  EXPECT_EQ(file.status().code(), StatusCode::kCorrupt);
  return std::string(file.status().message());
}

// The sample with one transfer, of which one file is changed.
Hash with_file(const std::string& source, const std::function<void(Hash&)>& change) {
  TransferFile file;
  file.put(sample_transfer(8));
  Hash hash = file.to_hash();
  change(hash.at("TRANSFER").at("8.1234567890.3").at("FILES").at(source));
  return hash;
}

TEST(TransferFile, ComesBackFromItsHash) {
  const Hash hash = sample().to_hash();
  const auto again = TransferFile::from_hash(hash);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->to_hash(), hash);
  EXPECT_EQ(again->command, TransferCommand::kRun);
  EXPECT_EQ(again->state, TransferState::kRunning);
  ASSERT_EQ(again->transfers.size(), 2U);
  EXPECT_TRUE(again->transfers[0].done);
  EXPECT_EQ(again->transfers[0].tasks[0].copy.pieces[0].crc, 0x12345678U)
      << "that of the whole file";
  EXPECT_EQ(again->transfers[0].tasks[1].copy.pieces[1].crc, 0xabcdefU);
  EXPECT_EQ(again->transfers[0].mode, mode_t{0640});
  EXPECT_EQ(again->transfers[1].error, "no space");
  EXPECT_EQ(again->transfers[1].written(), 4U);
}

TEST(TransferFile, HasTheKeysOfTheFormat) {
  const Hash hash = sample().to_hash();
  EXPECT_EQ(hash.value("COMMAND"), "RUN");
  EXPECT_EQ(hash.value("STATE"), "RUNNING");
  const Hash* transfer = hash.getf("TRANSFER %s", "8.1234567890.3");
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(transfer->value("FLAG"), "DONE");
  EXPECT_EQ(transfer->value("BW"), "52428800.000000");
  EXPECT_EQ(transfer->value("PERCENT"), "12.500000");
  const Hash* plain = transfer->getf("FILES %s", "/cache/a");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->value("DESTINATION"), "/prefix/.a.tmp");
  EXPECT_EQ(plain->value("SIZE"), "10");
  EXPECT_EQ(plain->value("WRITTEN"), "4");
  EXPECT_NE(transfer->getf("FILES %s PIECE 0 OFFSET 90", "/cache/b"), nullptr);
}

TEST(TransferFile, RefusesWhatDoesNotFollowTheFormat) {
  EXPECT_EQ(refusal(Hash()), "key 'COMMAND' is missing");
  Hash hash = sample().to_hash();
  hash.set_value("COMMAND", "FLY");
  EXPECT_THAT(refusal(hash), HasSubstr("unknown value 'FLY'"));
  for (const char* path : {"", "relative", "/a/../b", "//a", "/a/./b", "/a\nb", "/"}) {
    EXPECT_NE(
        refusal(with_file("/cache/a", [&](Hash& file) { file.set_value("DESTINATION", path); })),
        "accepted")
        << path;
    EXPECT_NE(refusal(with_file(path, [](Hash& file) { file.set_value("SIZE", 1); })), "accepted")
        << path;
  }
  EXPECT_THAT(refusal(with_file("/cache/a", [](Hash& file) { file.set_value("WRITTEN", 11); })),
              HasSubstr("more bytes are written than there are"));
  EXPECT_NE(refusal(with_file("/cache/a", [](Hash& file) { file.set_value("SIZE", -1); })),
            "accepted");
  EXPECT_NE(
      refusal(with_file("/cache/a", [](Hash& file) { file.set_value("CRC", "0x123456789"); })),
      "accepted");
  EXPECT_NE(refusal(with_file("/cache/a", [](Hash& file) { file.unset("DESTINATION"); })),
            "accepted");
}

TEST(TransferFile, RefusesPiecesThatAreNotTheFile) {
  const auto with_piece = [](const char* key, const char* value) {
    return refusal(
        with_file("/cache/b", [&](Hash& file) { file.at("PIECE").at("1").set_value(key, value); }));
  };
  EXPECT_THAT(with_piece("LENGTH", "21"), HasSubstr("longer than the file"));
  EXPECT_THAT(with_piece("LENGTH", "19"), HasSubstr("shorter than the file"));
  EXPECT_THAT(with_piece("LENGTH", "18446744073709551615"), HasSubstr("are no part of a file"));
  EXPECT_THAT(with_piece("OFFSET", "9223372036854775800"), HasSubstr("are no part of a file"));
  EXPECT_NE(with_piece("DESTINATION", "/a/../../etc/passwd"), "accepted");
  EXPECT_THAT(refusal(with_file("/cache/b", [](Hash& file) { file.at("PIECE").unset("0"); })),
              HasSubstr("is missing"));
}

TEST(TransferFile, RefusesLimitsAndKeysThatAreNone) {
  const auto with = [](const char* key, const char* value) {
    TransferFile file;
    file.put(sample_transfer(8));
    Hash hash = file.to_hash();
    hash.at("TRANSFER").at("8.1234567890.3").set_value(key, value);
    return refusal(hash);
  };
  for (const char* bad : {"-1", "nan", "inf", "1e999", "", "x"})
    EXPECT_NE(with("BW", bad), "accepted") << bad;
  EXPECT_NE(with("PERCENT", "101"), "accepted");
  EXPECT_NE(with("MODE", "2541"), "accepted") << "set-user-id";
  EXPECT_NE(with("FLAG", "MAYBE"), "accepted");
  EXPECT_NE(with("ID", "0"), "accepted");
  EXPECT_THAT(with("RANK", "4"), HasSubstr("its key is not that of its content"));
}

class TransferClientTest : public ::testing::Test {
 protected:
  TransferClientTest() : control_(*fs_.open_directory(directory_.path())) {}

  // What a daemon would do.
  void set_state(TransferState state) {
    ASSERT_TRUE(update_transfer_file(fs_, *control_, [&](TransferFile& file) {
                  file.state = state;
                  return true;
                }).ok());
  }
  std::unique_ptr<File> live_daemon() {
    OpenOptions options = OpenOptions::read_write();
    options.create = true;
    auto lock = fs_.open(At(*control_, std::string(kTransferDaemonLockName)), options);
    EXPECT_TRUE(lock.ok() && (*lock)->lock(LockMode::kExclusive, false).ok());
    return *std::move(lock);
  }

  FileSystem& fs_ = real_file_system();
  TemporaryDirectory directory_;
  std::unique_ptr<Directory> control_;
  TransferClient client_{fs_, *control_};
};

TEST_F(TransferClientTest, KnowsADaemonByTheLockItHolds) {
  EXPECT_FALSE(client_.daemon_lives());
  auto lock = live_daemon();
  EXPECT_TRUE(client_.daemon_lives());
  lock.reset();
  EXPECT_FALSE(client_.daemon_lives());
}

TEST_F(TransferClientTest, TakesNothingBackThatTheDaemonIsCopying) {
  const std::string key = sample_transfer(8).key();
  ASSERT_TRUE(client_.submit(sample_transfer(8)).ok());
  auto lock = live_daemon();
  bool served = false;
  ASSERT_TRUE(client_.look(key, served).ok());
  EXPECT_TRUE(served);
  set_state(TransferState::kRunning);
  EXPECT_EQ(client_.withdraw(key).code(), StatusCode::kUnavailable);
  lock.reset();  // killed: nobody copies any more, whatever the file says
  EXPECT_TRUE(client_.withdraw(key).ok());
  EXPECT_EQ(client_.look(key, served).status().code(), StatusCode::kNotFound);
}

TEST_F(TransferClientTest, ANewRunWaitsUntilTheDaemonHasStopped) {
  ASSERT_TRUE(client_.take_over().ok()) << "nothing to take over";
  ASSERT_TRUE(client_.submit(sample_transfer(8)).ok());
  auto lock = live_daemon();
  set_state(TransferState::kRunning);
  EXPECT_EQ(client_.take_over(std::chrono::milliseconds(100)).code(), StatusCode::kUnavailable);
  const auto file = read_transfer_file(fs_, *control_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->command, TransferCommand::kStop);
  set_state(TransferState::kStopped);
  EXPECT_TRUE(client_.take_over(std::chrono::milliseconds(100)).ok());
  EXPECT_TRUE(read_transfer_file(fs_, *control_)->transfers.empty());
}

}  // namespace
}  // namespace scr::flush
