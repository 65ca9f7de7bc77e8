// Shared files against a file that is kept byte by byte; logs and their tables; homes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "core/base/checksum.hpp"
#include "core/base/read_only_file.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "core/shared_file/log_file.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::shared_file {
namespace {

using scr::testing::TemporaryDirectory;

constexpr std::uint64_t kFile = 77;

// Homes of several nodes in this process.
class Nodes {
 public:
  explicit Nodes(int count) : homes_(static_cast<std::size_t>(count)) {}
  std::shared_ptr<const Homes> homes() {
    return std::make_shared<const Homes>(
        static_cast<int>(homes_.size()), [this](const std::vector<Homes::Message>& messages) {
          std::vector<Result<Bytes>> answers;
          for (const auto& message : messages) {
            answers.push_back(
                homes_[static_cast<std::size_t>(message.node)].handle(message.request));
          }
          return answers;
        });
  }
  Home& operator[](std::size_t i) { return homes_[i]; }

 private:
  std::vector<Home> homes_;
};

std::string log_path(const TemporaryDirectory& directory, std::uint32_t rank) {
  return directory / log_name("file", static_cast<int>(rank));
}

OpenLog opener(const TemporaryDirectory& directory) {
  return [&directory](const LogPlace& place) {
    return real_file_system().open(log_path(directory, place.rank), OpenOptions::read());
  };
}

std::unique_ptr<LogFile> open_file(Communicator& comm, const std::shared_ptr<const Homes>& homes,
                                   const TemporaryDirectory& directory,
                                   const std::shared_ptr<File>& base = nullptr,
                                   LogFile::Options options = {}) {
  const auto rank = static_cast<std::uint32_t>(comm.rank());
  auto log = Log::create(real_file_system(), log_path(directory, rank));
  EXPECT_TRUE(log.ok());
  auto reader = std::make_unique<LogReader>(homes, kFile, opener(directory), /*sealed=*/false);
  options.comm = std::shared_ptr<Communicator>(&comm, [](Communicator*) {});
  options.id = kFile;
  options.place = {rank, 0, 1000 + rank};
  const std::uint64_t size = base ? base->info()->size : 0;
  if (base) reader->set_base(base, size);
  if (rank == 0) {
    EXPECT_TRUE(homes->create(kFile, size).ok());
  }
  comm.barrier();
  return std::make_unique<LogFile>(options, homes, std::move(*log), std::move(reader));
}

// What the logs say once all is closed, put together as a flush does.
std::vector<std::byte> replay(const TemporaryDirectory& directory, int ranks) {
  std::vector<std::byte> bytes;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = log_path(directory, static_cast<std::uint32_t>(rank));
    auto table = read_log_table(real_file_system(), path);
    EXPECT_TRUE(table.ok()) << table.status().message();
    auto file = real_file_system().open(path, OpenOptions::read());
    bytes.resize(table->size);
    for (const LogEntry& entry : table->entries) {
      const std::span part = std::span(bytes).subspan(entry.offset, entry.length);
      EXPECT_TRUE(std::ranges::all_of(part, [](std::byte b) { return b == std::byte{0}; }))
          << "two logs hold the same bytes";
      EXPECT_TRUE((*file)->read_exactly(part, entry.log_offset).ok());
      EXPECT_EQ(crc32(part), entry.crc);
    }
  }
  return bytes;
}

struct Write {
  int rank = 0;
  std::vector<Range> ranges;
  std::vector<std::byte> data;
};

Write random_write(std::mt19937& random, int ranks, std::uint64_t longest) {
  Write write;
  write.rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
  const std::size_t pieces = 1 + random() % 5;
  // Some far out, so that several stripes and homes have a share.
  std::uint64_t at = random() % 3 == 0 ? kStripeSize - 50 + random() % 100 : random() % 400;
  for (std::size_t i = 0; i < pieces; ++i) {
    const Range range{at, random() % longest};
    write.ranges.push_back(range);
    for (std::uint64_t b = 0; b < range.length; ++b)
      write.data.push_back(std::byte(1 + random() % 255));
    at += range.length + random() % 20;
  }
  return write;
}

void put_into(const Write& write, std::vector<std::byte>& bytes) {
  std::size_t next = 0;
  for (const Range& range : write.ranges) {
    if (range.length == 0) continue;
    bytes.resize(std::max<std::size_t>(bytes.size(), range.end()));
    std::memcpy(bytes.data() + range.offset, write.data.data() + next, range.length);
    next += range.length;
  }
}

// Every rank draws the same random numbers, so each knows what the file must hold.
void work_at_random(Communicator& comm, LogFile& file, unsigned seed,
                    std::vector<std::byte> expected, int steps) {
  std::mt19937 random(seed);
  for (int step = 0; step < steps; ++step) {
    const auto what = random() % 10;
    if (what < 6) {
      const Write write = random_write(random, comm.size(), 60);
      if (comm.rank() == write.rank) {
        ASSERT_TRUE(file.write(write.ranges, write.data).ok());
      }
      put_into(write, expected);
    } else if (what == 6) {
      const std::uint64_t size = random() % (expected.size() + 100);
      ASSERT_TRUE(file.set_size(size).ok());
      expected.resize(size);
    } else if (what == 7) {
      const std::uint64_t size = random() % (expected.size() + 100);
      ASSERT_TRUE(file.reserve(size).ok());
      expected.resize(std::max<std::size_t>(size, expected.size()));
    } else {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(comm.size()));
      const Range range{random() % (expected.size() + 10), random() % 300};
      if (comm.rank() == rank) {
        std::vector<std::byte> bytes(range.length, std::byte{0xee});
        auto count = file.read(std::span(&range, 1), bytes);
        ASSERT_TRUE(count.ok()) << count.status().message();
        const std::uint64_t there = range.offset < expected.size()
                                        ? std::min(range.length, expected.size() - range.offset)
                                        : 0;
        ASSERT_EQ(*count, there);
        ASSERT_TRUE(there == 0 ||
                    std::memcmp(bytes.data(), expected.data() + range.offset, there) == 0)
            << "seed " << seed << " step " << step;
        ASSERT_EQ(*file.size(), expected.size());
      }
    }
    // The program communicates: what was written is told to the homes before.
    ASSERT_TRUE(file.publish().ok());
    comm.barrier();
  }
  ASSERT_TRUE(file.close().ok());
  comm.barrier();
}

std::vector<std::byte> expected_after(unsigned seed, int ranks, std::vector<std::byte> expected,
                                      int steps) {
  std::mt19937 random(seed);
  for (int step = 0; step < steps; ++step) {
    const auto what = random() % 10;
    if (what < 6) {
      put_into(random_write(random, ranks, 60), expected);
    } else if (what == 6) {
      expected.resize(random() % (expected.size() + 100));
    } else if (what == 7) {
      expected.resize(std::max<std::size_t>(random() % (expected.size() + 100), expected.size()));
    } else {
      random();
      random();
      random();
    }
  }
  return expected;
}

TEST(SharedFile, IsLikeOneFileWhateverTheRanksDo) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    TemporaryDirectory directory;
    Nodes nodes(3);
    const auto homes = nodes.homes();
    const int ranks = 1 + static_cast<int>(seed % 4);
    InProcessWorld::run(ranks, [&](Communicator& comm) {
      work_at_random(comm, *open_file(comm, homes, directory), seed, {}, 60);
    });
    const auto expected = expected_after(seed, ranks, {}, 60);
    EXPECT_EQ(replay(directory, ranks), expected);
  }
}

TEST(SharedFile, ANewVersionKeepsWhatItDoesNotChange) {
  for (unsigned seed = 100; seed < 106; ++seed) {
    SCOPED_TRACE(seed);
    TemporaryDirectory directory;
    std::vector<std::byte> old(700);
    std::mt19937 random(seed);
    for (std::byte& b : old) b = std::byte(1 + random() % 255);
    const std::string path = directory / "old";
    ASSERT_TRUE(real_file_system().write_file_atomically(path, old, false).ok());
    Nodes nodes(2);
    const auto homes = nodes.homes();
    InProcessWorld::run(3, [&](Communicator& comm) {
      std::shared_ptr<File> base = *real_file_system().open(path, OpenOptions::read());
      work_at_random(comm, *open_file(comm, homes, directory, base), seed, old, 12);
    });
    EXPECT_EQ(replay(directory, 3), expected_after(seed, 3, old, 12));
    EXPECT_EQ(*real_file_system().read_file(path), old);
  }
}

// A file with holes, much longer than what is in it.
std::string make_sparse(const TemporaryDirectory& directory, std::uint64_t size,
                        std::span<const std::uint64_t> places) {
  std::string path = directory / "sparse";
  auto file = real_file_system().open(path, OpenOptions::create_truncate());
  EXPECT_TRUE((*file)->truncate(size).ok());
  for (const std::uint64_t place : places) {
    EXPECT_TRUE((*file)->write_all(std::vector<std::byte>(100, std::byte{'x'}), place).ok());
  }
  EXPECT_TRUE((*file)->close().ok());
  return path;
}

std::string bytes_at(const std::string& path, std::uint64_t offset, std::size_t count) {
  std::string text(count, '?');
  auto file = real_file_system().open(path, OpenOptions::read());
  EXPECT_TRUE((*file)->read_exactly(std::as_writable_bytes(std::span(text)), offset).ok());
  return text;
}

TEST(SharedFile, ANewVersionOfASparseFileCopiesItsDataAndNotItsHoles) {
  constexpr std::uint64_t kSize = 20 * kStripeSize + 12345;
  constexpr std::array<std::uint64_t, 3> kPlaces = {70000, 5 * kStripeSize - 50, kSize - 100};
  const TemporaryDirectory directory;
  const std::string path = make_sparse(directory, kSize, kPlaces);
  Nodes nodes(2);
  const auto homes = nodes.homes();
  InProcessWorld::run(2, [&](Communicator& comm) {
    std::shared_ptr<File> base = *real_file_system().open(path, OpenOptions::read());
    auto file = open_file(comm, homes, directory, base);
    const Range range{7 * kStripeSize, 1};
    if (comm.rank() == 1) {
      ASSERT_TRUE(file->write(std::span(&range, 1), std::as_bytes(std::span("y", 1))).ok());
    }
    ASSERT_TRUE(file->close().ok());
  });
  std::uint64_t held = 0;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    held += read_log_table(real_file_system(), log_path(directory, rank))->data_size;
  }
  EXPECT_LT(held, std::uint64_t{1} << 20U);
  auto expected = *real_file_system().read_file(path);
  expected[7 * kStripeSize] = std::byte{'y'};
  EXPECT_TRUE(replay(directory, 2) == expected);
}

TEST(SharedFile, ALogDoesNotGrowWhenTheSameBytesAreWrittenAgain) {
  TemporaryDirectory directory;
  Nodes nodes(1);
  const auto homes = nodes.homes();
  InProcessWorld::run(1, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    const std::vector<std::byte> data(1000, std::byte{7});
    for (int i = 0; i < 50; ++i) {
      const Range range{static_cast<std::uint64_t>(i % 3), 1000};
      ASSERT_TRUE(file->write(std::span(&range, 1), data).ok());
      ASSERT_TRUE(file->publish().ok());
    }
    ASSERT_TRUE(file->close().ok());
  });
  EXPECT_EQ(read_log_table(real_file_system(), log_path(directory, 0))->data_size, 1002U);
}

TEST(SharedFile, CanBeMovedToItsNameWhileItIsOpen) {
  constexpr int kRanks = 3;
  const TemporaryDirectory directory;
  const std::string name = directory / "plain";
  Nodes nodes(2);
  const auto homes = nodes.homes();
  InProcessWorld::run(kRanks, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    const auto rank = static_cast<std::uint64_t>(comm.rank());
    const auto write = [&](std::uint64_t at, char value) {
      const Range range{at, 100};
      const std::vector<std::byte> bytes(range.length, static_cast<std::byte>(value));
      ASSERT_TRUE(file->write(std::span(&range, 1), bytes).ok());
    };
    write(rank * 100, static_cast<char>('a' + comm.rank()));
    LogFile::Move move;
    move.open = [&](bool first) {
      OpenOptions options = first ? OpenOptions::create_truncate() : OpenOptions::read_write();
      options.access = OpenOptions::Access::kReadWrite;
      return real_file_system().open(name + ".tmp", options);
    };
    move.commit = [&] { return real_file_system().rename(name + ".tmp", name); };
    // It fails on one process: the file is as before for all.
    LogFile::Move failing = move;
    if (comm.rank() == 1)
      failing.open = [](bool) { return Result<std::unique_ptr<File>>(internal_error("no")); };
    EXPECT_FALSE(file->move(comm, failing).ok());
    EXPECT_FALSE(std::filesystem::exists(name));
    ASSERT_TRUE(file->move(comm, move).ok());
    write(1000 + rank * 100, static_cast<char>('A' + comm.rank()));
    ASSERT_TRUE(file->sync().ok());
    EXPECT_EQ(*file->size(), 1300U);
    std::vector<std::byte> found(1300);
    const Range all{0, found.size()};
    EXPECT_EQ(*file->read(std::span(&all, 1), found), found.size());
    const std::string text(reinterpret_cast<const char*>(found.data()), found.size());
    EXPECT_EQ(text, std::string(100, 'a') + std::string(100, 'b') + std::string(100, 'c') +
                        std::string(700, '\0') + std::string(100, 'A') + std::string(100, 'B') +
                        std::string(100, 'C'));
    ASSERT_TRUE(file->set_size(50).ok());
    ASSERT_TRUE(file->close().ok());
  });
  EXPECT_EQ(std::filesystem::file_size(name), 50U);
}

TEST(SharedFile, HasItsHolesWhenItIsMovedToItsName) {
  constexpr std::uint64_t kFar = 10 * kStripeSize;
  const TemporaryDirectory directory;
  const std::string name = directory / "plain";
  Nodes nodes(1);
  const auto homes = nodes.homes();
  InProcessWorld::run(2, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    const Range range{kFar * static_cast<std::uint64_t>(comm.rank()) + 10, 3};
    ASSERT_TRUE(file->write(std::span(&range, 1), std::as_bytes(std::span("abc", 3))).ok());
    LogFile::Move move;
    move.open = [&](bool first) {
      return real_file_system().open(
          name, first ? OpenOptions::create_truncate() : OpenOptions::read_write());
    };
    move.commit = [] { return Status(); };
    ASSERT_TRUE(file->move(comm, move).ok());
    ASSERT_TRUE(file->close().ok());
  });
  ASSERT_EQ(std::filesystem::file_size(name), kFar + 13);
  EXPECT_EQ(bytes_at(name, 9, 5), std::string("\0abc\0", 5));
  EXPECT_EQ(bytes_at(name, kFar + 9, 4), std::string("\0abc", 4));
  struct stat info {};
  ASSERT_EQ(::stat(name.c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

// Processes that find it moved at different moments would not do the same number of agreements.
TEST(SharedFile, IsNotMovedInTheMiddleOfACollectiveCall) {
  const TemporaryDirectory directory;
  Nodes nodes(1);
  const auto homes = nodes.homes();
  InProcessWorld::run(2, [&](Communicator& comm) {
    LogFile* file = nullptr;
    int asked = 0;
    LogFile::Options options;
    options.synced = [&] {
      ++asked;
      EXPECT_FALSE(file->begin_move());
      return Status();
    };
    const auto opened = open_file(comm, homes, directory, nullptr, options);
    file = opened.get();
    ASSERT_TRUE(file->sync().ok());
    EXPECT_EQ(asked, comm.rank() == 0 ? 1 : 0);
    EXPECT_TRUE(file->begin_move());
    file->end_move();
    ASSERT_TRUE(file->close().ok());
  });
}

TEST(SharedFile, ACollectiveCallWaitsUntilItHasMoved) {
  const TemporaryDirectory directory;
  const std::string name = directory / "plain";
  Nodes nodes(1);
  const auto homes = nodes.homes();
  InProcessWorld::run(1, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    const Range range{0, 100};
    ASSERT_TRUE(file->write(std::span(&range, 1), std::vector<std::byte>(100)).ok());
    std::atomic<bool> done = false;
    ASSERT_TRUE(file->begin_move());
    std::thread other([&] {
      EXPECT_TRUE(file->set_size(50).ok());
      done = true;
    });
    LogFile::Move move;
    move.open = [&](bool) {
      OpenOptions options = OpenOptions::create_truncate();
      options.access = OpenOptions::Access::kReadWrite;
      return real_file_system().open(name, options);
    };
    move.commit = [&] {
      EXPECT_EQ(std::filesystem::file_size(name), 100U);
      EXPECT_FALSE(done);
      return Status();
    };
    ASSERT_TRUE(file->move(comm, move).ok());
    file->end_move();
    other.join();
    EXPECT_EQ(std::filesystem::file_size(name), 50U);
    ASSERT_TRUE(file->close().ok());
  });
}

TEST(SharedFile, ThePointerGivesEveryRankItsOwnPlace) {
  TemporaryDirectory directory;
  Nodes nodes(2);
  const auto homes = nodes.homes();
  std::vector<std::uint64_t> places;
  std::mutex mutex;
  InProcessWorld::run(4, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    for (int i = 0; i < 100; ++i) {
      auto place = file->advance_pointer(3);
      ASSERT_TRUE(place.ok());
      const std::lock_guard lock(mutex);
      places.push_back(*place);
    }
    ASSERT_TRUE(file->close().ok());
  });
  std::ranges::sort(places);
  for (std::size_t i = 0; i < places.size(); ++i) ASSERT_EQ(places[i], 3 * i);
}

TEST(SharedFile, OnlyOneRankHasTheLock) {
  TemporaryDirectory directory;
  Nodes nodes(2);
  const auto homes = nodes.homes();
  int inside = 0;
  int total = 0;
  InProcessWorld::run(4, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(file->lock().ok());
      EXPECT_EQ(++inside, 1);
      ++total;
      --inside;
      ASSERT_TRUE(file->unlock().ok());
    }
    ASSERT_TRUE(file->close().ok());
  });
  EXPECT_EQ(total, 200);
}

TEST(SharedFile, OnlyOneThreadOfARankHasTheLock) {
  TemporaryDirectory directory;
  Nodes nodes(1);
  const auto homes = nodes.homes();
  std::atomic<int> inside = 0;
  InProcessWorld::run(1, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    const auto work = [&] {
      for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(file->lock().ok());
        EXPECT_EQ(++inside, 1);
        std::this_thread::yield();
        --inside;
        ASSERT_TRUE(file->unlock().ok());
      }
    };
    std::thread other(work);
    work();
    other.join();
    ASSERT_TRUE(file->close().ok());
  });
}

// A process that cannot tell the homes of its write must not keep the others waiting for ever.
TEST(SharedFile, TheLockIsGivenBackAlsoIfAWriteCannotBePublished) {
  TemporaryDirectory directory;
  Home home;
  bool fail = false;
  const auto homes =
      std::make_shared<const Homes>(1, [&](const std::vector<Homes::Message>& messages) {
        std::vector<Result<Bytes>> answers;
        for (const auto& message : messages) {
          const bool is_enter = message.request.front() == std::byte{1};
          answers.push_back(fail && is_enter ? Result<Bytes>(internal_error("no way"))
                                             : home.handle(message.request));
        }
        return answers;
      });
  InProcessWorld::run(1, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    ASSERT_TRUE(file->lock().ok());
    const Range range{0, 4};
    ASSERT_TRUE(file->write(std::span(&range, 1), std::vector<std::byte>(4)).ok());
    fail = true;
    EXPECT_FALSE(file->unlock().ok());
    EXPECT_TRUE(*homes->try_lock(kFile, 99));
    fail = false;
    (void)file->close();
  });
}

// --- logs on disk --------------------------------------------------------------------------------

std::string make_log(const TemporaryDirectory& directory) {
  Nodes nodes(1);
  const auto homes = nodes.homes();
  InProcessWorld::run(1, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    const std::vector<Range> ranges = {{0, 10}, {20, 5}, {100, 40}};
    const std::vector<std::byte> data(55, std::byte{9});
    ASSERT_TRUE(file->write(ranges, data).ok());
    ASSERT_TRUE(file->close().ok());
  });
  return log_path(directory, 0);
}

TEST(LogTable, EveryTruncationAndEveryChangedByteOfItIsRefused) {
  TemporaryDirectory directory;
  const std::string path = make_log(directory);
  FileSystem& fs = real_file_system();
  const auto good = *fs.read_file(path);
  const std::uint64_t data_size = read_log_table(fs, path)->data_size;
  ASSERT_EQ(data_size, 55U);
  const auto refused = [&](const std::vector<std::byte>& bytes) {
    EXPECT_TRUE(fs.write_file_atomically(path, bytes, false).ok());
    auto table = read_log_table(fs, path);
    return !table.ok() && table.status().message().find(path) != std::string::npos;
  };
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)})) << size;
  }
  for (std::size_t at = data_size; at < good.size(); ++at) {
    auto bad = good;
    bad[at] ^= std::byte{0x10};
    EXPECT_TRUE(refused(bad)) << at;
  }
}

TEST(LogTable, AClosedLogIsGoneOnWith) {
  TemporaryDirectory directory;
  const std::string path = make_log(directory);
  auto log = Log::reopen(real_file_system(), path);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ((*log)->size(), 55U);
  // Another process may not be able to: then nothing has changed.
  EXPECT_TRUE(read_log_table(real_file_system(), path).ok());
  std::vector<Extent> entered;
  const Range range{0, 12};
  ASSERT_TRUE((*log)->write(std::span(&range, 1), std::vector<std::byte>(12), entered).ok());
  EXPECT_EQ((*log)->size(), 57U);
  EXPECT_FALSE(read_log_table(real_file_system(), path).ok());
}

// --- as files ---

// HDF5 takes files with the same numbers for one, and reads the first for both.
TEST(SharedFile, ReadersOfTwoFilesAreToldApart) {
  Nodes nodes(1);
  const auto homes = nodes.homes();
  for (const std::uint64_t id : {kFile, kFile + 1}) ASSERT_TRUE(homes->create(id, 0).ok());
  const auto numbers = [&](std::uint64_t id) {
    EXPECT_TRUE(homes->enter(id, {0, 0, 9}, {}, 10).ok());
    auto file = as_file(std::make_unique<LogReader>(homes, id, OpenLog(), /*sealed=*/true), "f");
    auto info = file->info();
    EXPECT_TRUE(info.ok()) << info.status().message();
    return std::pair(info->device, info->inode);
  };
  EXPECT_NE(numbers(kFile), numbers(kFile + 1));
  EXPECT_EQ(numbers(kFile), numbers(kFile));
  EXPECT_NE(numbers(kFile).first, dev_t{0});
}

// --- what a sealed file costs to read ------------------------------------------------------------

// A log that counts how often it is read.
class CountedLog final : public ReadOnlyFile {
 public:
  CountedLog(std::unique_ptr<File> file, std::atomic<int>& reads)
      : file_(std::move(file)), reads_(reads) {}
  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    ++reads_;
    return file_->read_some(buffer, offset);
  }
  Result<FileInfo> info() override { return file_->info(); }
  const std::string& path() const override { return file_->path(); }
  int descriptor() const override { return file_->descriptor(); }

 private:
  std::unique_ptr<File> file_;
  std::atomic<int>& reads_;
};

// Two ranks have written pieces in turns, over several stripes.
class SealedFile : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPiece = 1024;
  static constexpr std::uint64_t kPieces = 3 * kStripeSize / kPiece;  // of both

  static std::byte byte_of(std::uint64_t offset) {
    return std::byte(offset / kPiece * 7 + offset % kPiece + 1);
  }
  static std::vector<Range> pieces_of(std::uint64_t rank) {
    std::vector<Range> ranges;
    for (std::uint64_t i = rank; i < kPieces; i += 2) ranges.push_back({i * kPiece, kPiece});
    return ranges;
  }
  static void expect_bytes(std::span<const Range> ranges, std::span<const std::byte> bytes) {
    std::size_t next = 0;
    for (const Range& range : ranges) {
      for (std::uint64_t i = 0; i < range.length; ++i) {
        ASSERT_EQ(bytes[next++], byte_of(range.offset + i)) << "at " << range.offset + i;
      }
    }
  }

  void SetUp() override {
    InProcessWorld::run(2, [&](Communicator& comm) {
      auto file = open_file(comm, nodes_.homes(), directory_);
      const auto ranges = pieces_of(static_cast<std::uint64_t>(comm.rank()));
      std::vector<std::byte> data;
      for (const Range& range : ranges) {
        for (std::uint64_t i = 0; i < range.length; ++i) data.push_back(byte_of(range.offset + i));
      }
      ASSERT_TRUE(file->write(ranges, data).ok());
      ASSERT_TRUE(file->close().ok());
    });
  }

  std::unique_ptr<LogReader> reader(bool sealed = true) {
    auto homes = std::make_shared<const Homes>(3, [this](
                                                      const std::vector<Homes::Message>& messages) {
      ++asked_;
      std::vector<Result<Bytes>> answers;
      for (const auto& message : messages) {
        answers.push_back(nodes_[static_cast<std::size_t>(message.node)].handle(message.request));
      }
      return answers;
    });
    return std::make_unique<LogReader>(
        homes, kFile,
        [this](const LogPlace& place) -> Result<std::unique_ptr<File>> {
          SCR_ASSIGN_OR_RETURN(auto file, opener(directory_)(place));
          return std::unique_ptr<File>(std::make_unique<CountedLog>(std::move(file), reads_));
        },
        sealed);
  }

  TemporaryDirectory directory_;
  Nodes nodes_{3};
  std::atomic<int> reads_ = 0;  // of logs
  std::atomic<int> asked_ = 0;  // rounds of messages to the homes
};

TEST_F(SealedFile, PiecesThatFollowEachOtherInALogAreReadTogether) {
  const auto ranges = pieces_of(1);
  std::vector<std::byte> bytes(ranges.size() * kPiece);
  ASSERT_EQ(*reader()->read(ranges, bytes), bytes.size());
  expect_bytes(ranges, bytes);
  EXPECT_EQ(reads_, 1);
  EXPECT_LE(asked_,
            4);  // for the size, and for all stripes, whose answers do not fit in one message
}

TEST_F(SealedFile, BeforeThatAReadAsksTheHomesOnce) {
  const auto open = reader(/*sealed=*/false);
  const std::vector<Range> ranges = {
      {5, 2000}, {2 * kStripeSize - 7, 14}, {kPieces * kPiece - 3, 9}};
  std::vector<std::byte> bytes(2023, std::byte{99});
  ASSERT_EQ(*open->read(ranges, bytes), 2017U);
  expect_bytes(std::span(ranges).first(2), bytes);
  EXPECT_EQ(bytes[2016], byte_of(kPieces * kPiece - 1));
  EXPECT_EQ(bytes[2017], std::byte{99});
  EXPECT_EQ(asked_, 1);
}

TEST_F(SealedFile, SmallReadsInOrderTakeAlongWhatFollows) {
  const auto sealed = reader();
  const auto ranges = pieces_of(0);
  std::vector<std::byte> bytes(kPiece);
  for (const Range& range : ranges) {
    ASSERT_EQ(*sealed->read(std::span(&range, 1), bytes), kPiece);
    expect_bytes(std::span(&range, 1), bytes);
  }
  EXPECT_LT(static_cast<std::size_t>(reads_), ranges.size() / 20);
}

TEST_F(SealedFile, IsTheSameReadInAnyOrder) {
  std::mt19937 random(5);
  const auto sealed = reader();
  for (int i = 0; i < 3000; ++i) {
    std::vector<Range> ranges;
    std::uint64_t length = 0;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      const std::uint64_t longest = random() % 20 == 0 ? 200'000 : 3000;
      const std::uint64_t offset =
          random() % 4 == 0 ? (1 + random() % 2) * kStripeSize - 1500 : random() % 3'000'000;
      ranges.push_back({offset, random() % longest});
      length += ranges.back().length;
    }
    std::vector<std::byte> bytes(length);
    ASSERT_EQ(*sealed->read(ranges, bytes), length);
    expect_bytes(ranges, bytes);
  }
  const Range end{kPieces * kPiece - 10, 100};
  std::vector<std::byte> bytes(100);
  EXPECT_EQ(*sealed->read(std::span(&end, 1), bytes), 10U);
}

// --- messages ------------------------------------------------------------------------------------

TEST(Home, RefusesWhatIsNoMessage) {
  Home home;
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes(random() % 80);
    for (std::byte& b : bytes) b = std::byte(random() % 4 == 0 ? random() : random() % 17);
    (void)home.handle(bytes);
  }
  Bytes empty;
  EXPECT_FALSE(home.handle(empty).ok());
}

TEST(Homes, FindsMoreThanFitsInOneMessage) {
  Nodes nodes(2);
  const auto homes = nodes.homes();
  std::vector<Extent> extents;
  for (std::uint64_t i = 0; i < 70'000; ++i) extents.push_back({i * 10, 5, i * 5, {}});
  ASSERT_TRUE(homes->create(kFile, 0).ok());
  ASSERT_TRUE(homes->enter(kFile, {3, 0, 9}, extents, 700'000).ok());
  const Range all{0, 700'000};
  auto found = homes->look_up(kFile, std::span(&all, 1));
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->size(), 140'000U);
  for (std::size_t i = 0; i < found->size(); ++i) {
    ASSERT_EQ((*found)[i].range, (Range{i * 5, 5}));
    ASSERT_EQ((*found)[i].log.has_value(), i % 2 == 0);
  }
  const std::vector<int> both = {0, 1};
  auto mine = homes->list(kFile, 3, both);
  ASSERT_TRUE(mine.ok());
  EXPECT_EQ(mine->size(), 70'000U);
  EXPECT_TRUE(homes->drop(kFile).ok());
  EXPECT_EQ(nodes[0].files() + nodes[1].files(), 0U);
}

// A dataset leaves the cache while somebody has one of its files open: an error, and no zeros.
TEST(Homes, AFileThatWasDroppedIsNotReadAsHoles) {
  TemporaryDirectory directory;
  Nodes nodes(2);
  const auto homes = nodes.homes();
  constexpr std::uint64_t kStripes = 4;
  InProcessWorld::run(1, [&](Communicator& comm) {
    auto file = open_file(comm, homes, directory);
    for (std::uint64_t stripe = 0; stripe < kStripes; ++stripe) {
      const Range range{stripe * kStripeSize, 3};
      ASSERT_TRUE(file->write(std::span(&range, 1), std::vector<std::byte>(3, std::byte{7})).ok());
    }
    ASSERT_TRUE(file->close().ok());
  });
  LogReader reader(homes, kFile, opener(directory), /*sealed=*/true);
  std::vector<std::byte> bytes(3);
  const Range first{0, 3};
  ASSERT_EQ(*reader.read(std::span(&first, 1), bytes), 3U);
  ASSERT_TRUE(homes->drop(kFile).ok());
  for (std::uint64_t stripe = 1; stripe < kStripes; ++stripe) {
    const Range range{stripe * kStripeSize, 3};
    auto count = reader.read(std::span(&range, 1), bytes);
    ASSERT_FALSE(count.ok());
    EXPECT_EQ(count.status().code(), StatusCode::kNotFound);
  }
  // Unless there is another copy.
  const std::string copy = directory / "copy";
  ASSERT_TRUE(real_file_system()
                  .write_file_atomically(copy, std::vector<std::byte>(8, std::byte{9}), false)
                  .ok());
  auto elsewhere = std::make_unique<LogReader>(homes, kFile, opener(directory), /*sealed=*/true);
  elsewhere->set_elsewhere([&] { return real_file_system().open(copy, OpenOptions::read()); });
  const auto file = as_file(std::move(elsewhere), "file");
  EXPECT_EQ(file->info()->size, 8U);
  ASSERT_EQ(*file->read(bytes, 5), 3U);
  EXPECT_EQ(bytes, std::vector<std::byte>(3, std::byte{9}));
  EXPECT_FALSE(homes->size(kFile).ok());
  EXPECT_FALSE(homes->list(kFile, 0, std::vector<int>{0, 1}).ok());
  EXPECT_FALSE(homes->add_to_pointer(kFile, 1).ok());
  EXPECT_EQ(nodes[0].files() + nodes[1].files(), 0U);
}

TEST(Homes, HolesOfANodeThatNoBytesCameToAreHoles) {
  Nodes nodes(3);
  const auto homes = nodes.homes();
  ASSERT_TRUE(homes->create(kFile, 5 * kStripeSize).ok());
  const Range all{0, 5 * kStripeSize};
  auto found = homes->look_up(kFile, std::span(&all, 1));
  ASSERT_TRUE(found.ok()) << found.status().message();
  for (const Location& location : *found) EXPECT_FALSE(location.log.has_value());
  EXPECT_EQ(*homes->size(kFile), 5 * kStripeSize);
}

TEST(Homes, ANameIsClaimedByOneOwnerUntilItIsReleased) {
  Nodes nodes(2);
  const auto homes = nodes.homes();
  EXPECT_TRUE(*homes->claim("a", 5));
  EXPECT_TRUE(*homes->claim("a", 5));
  EXPECT_FALSE(*homes->claim("a", 6));
  EXPECT_TRUE(*homes->claim("b", 6));
  EXPECT_TRUE(homes->release("a", 6).ok());  // not his
  EXPECT_TRUE(homes->release("a", 5).ok());
  EXPECT_FALSE(*homes->claim("a", 6));
  EXPECT_TRUE(homes->release("a", 5).ok());
  EXPECT_TRUE(*homes->claim("a", 6));
}

// Takes every message to its home several times, as the service does when connections break before
// the answers are there, and others in between.
class BreakingConnections {
 public:
  std::shared_ptr<const Homes> homes() {
    return std::make_shared<const Homes>(1, [this](const std::vector<Homes::Message>& messages) {
      std::vector<Result<Bytes>> answers;
      for (const auto& message : messages) {
        for (const Bytes& earlier : earlier_) (void)home_.handle(earlier);
        (void)home_.handle(message.request);
        answers.push_back(home_.handle(message.request));
        earlier_.push_back(message.request);
      }
      return answers;
    });
  }

 private:
  Home home_;
  std::vector<Bytes> earlier_;
};

TEST(Homes, AMessageThatArrivesTwiceMovesThePointerOnce) {
  BreakingConnections service;
  const auto first = service.homes();
  const auto second = service.homes();
  ASSERT_TRUE(first->create(kFile, 0).ok());
  EXPECT_EQ(*first->add_to_pointer(kFile, 3), 0U);
  EXPECT_EQ(*second->add_to_pointer(kFile, 3), 3U);
  EXPECT_EQ(*first->add_to_pointer(kFile, 4), 6U);
  EXPECT_EQ(*second->add_to_pointer(kFile, 0), 10U);
}

TEST(Homes, AMessageThatArrivesTwiceClaimsAndReleasesOnce) {
  BreakingConnections service;
  const auto homes = service.homes();
  EXPECT_TRUE(*homes->claim("a", 5));
  EXPECT_FALSE(*homes->claim("a", 6));
  EXPECT_TRUE(*homes->claim("a", 5));
  EXPECT_TRUE(homes->release("a", 5).ok());
  EXPECT_FALSE(*homes->claim("a", 6));
  EXPECT_TRUE(homes->release("a", 5).ok());
  EXPECT_TRUE(*homes->claim("a", 6));
}

// A page of the answer must cost what the page holds, not what the file does.
TEST(Homes, AMillionExtentsAreListedAndFound) {
  constexpr std::uint64_t kCount = 1'000'000;
  Nodes nodes(2);
  const auto homes = nodes.homes();
  ASSERT_TRUE(homes->create(kFile, 0).ok());
  std::vector<Extent> extents;
  for (std::uint64_t i = 0; i < kCount; ++i) extents.push_back({i * 16, 8, i * 8, {}});
  ASSERT_TRUE(homes->enter(kFile, {2, 0, 9}, extents, kCount * 16).ok());
  auto mine = homes->list(kFile, 2, std::vector<int>{0, 1});
  ASSERT_TRUE(mine.ok());
  ASSERT_EQ(mine->size(), kCount);
  EXPECT_EQ(mine->back().offset, (kCount - 1) * 16);
  const Range all{0, kCount * 16};
  auto found = homes->look_up(kFile, std::span(&all, 1));
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 2 * kCount);
  EXPECT_EQ(found->back().range, (Range{kCount * 16 - 8, 8}));
  auto cost = homes->cost(kFile);
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ(cost->extents, kCount);
  EXPECT_GE(cost->bytes, kCount * sizeof(Extent));
}

}  // namespace
}  // namespace scr::shared_file
