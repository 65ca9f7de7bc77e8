// Looking into HDF5 files from another process: whatever a file or libhdf5 does, the command lives.
#include "tools/index/inspect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tools/index/hdf5_worker.hpp"

namespace scr::tools {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class Inspect : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "inspect." + std::to_string(::getpid());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  // A file with one of everything (tests/commands/write_tree.c).
  DatasetFile make(const std::string& name, const std::string& time = "0.25") {
    const std::string command =
        std::string(TEST_PROGRAM_DIR) + "/write_tree " + time + " " + path(name);
    EXPECT_EQ(std::system(command.c_str()), 0);
    return plain(name);
  }
  DatasetFile write(const std::string& name, const std::string& content) {
    std::ofstream(path(name), std::ios::binary) << content;
    return plain(name);
  }
  DatasetFile plain(const std::string& name) {
    DatasetFile file;
    file.name = name;
    file.cached = path(name);
    file.size = std::filesystem::file_size(path(name));
    return file;
  }
  std::string content(const std::string& name) {
    std::ifstream stream(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::vector<FileReport> inspect(const std::vector<DatasetFile>& files,
                                  Depth depth = Depth::kTree) {
    std::vector<FileReport> reports;
    const Status status =
        inspect_files(real_file_system(), directory_, {{{}, files}}, depth, options_,
                      [&](const FileReport& report) { reports.push_back(report); });
    EXPECT_TRUE(status.ok()) << status.message();
    return reports;
  }
  std::vector<PairReport> compare(const std::vector<DatasetFile>& first,
                                  const std::vector<DatasetFile>& second) {
    std::vector<PairReport> reports;
    const Status status =
        compare_files(real_file_system(), directory_, first, second, options_,
                      [&](const PairReport& report) { reports.push_back(report); });
    EXPECT_TRUE(status.ok()) << status.message();
    return reports;
  }

  std::string directory_;
  InspectOptions options_;
};

const vfd::Hdf5Object* find(const FileReport& report, const std::string& path) {
  for (const vfd::Hdf5Object& object : report.objects) {
    if (object.path == path) return &object;
  }
  return nullptr;
}

TEST_F(Inspect, TheTreeHasEveryObjectOnceInOrder) {
  const std::vector<DatasetFile> files = {make("a.h5")};
  const auto reports = inspect(files);
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_TRUE(reports[0].hdf5);
  EXPECT_THAT(reports[0].problems, IsEmpty());
  std::vector<std::string> paths;
  for (const auto& object : reports[0].objects) paths.push_back(object.path);
  EXPECT_THAT(paths,
              ElementsAre("/", "/data", "/data/big_endian", "/data/circle", "/data/compact",
                          "/data/field", "/data/huge", "/data/lists", "/data/particle",
                          "/data/particles", "/data/time", "/data/words", "/outside", "/shortcut"));
  EXPECT_EQ(find(reports[0], "/data/circle")->target, "/");
  EXPECT_EQ(find(reports[0], "/shortcut")->target, "/data/field");
  EXPECT_EQ(find(reports[0], "/outside")->target, "/etc/hostname:/x");
}

TEST_F(Inspect, TypesShapesLayoutsAndAttributesAreTold) {
  const std::vector<DatasetFile> files = {make("a.h5")};
  const auto reports = inspect(files);
  const vfd::Hdf5Object& field = *find(reports.at(0), "/data/field");
  EXPECT_EQ(field.type, "float64");
  EXPECT_EQ(field.shape, "{100, 40}");
  EXPECT_EQ(field.layout, "chunked 30x40");
  EXPECT_THAT(field.filters, ElementsAre("shuffle", "deflate(6)", "fletcher32"));
  EXPECT_GT(field.stored, 0U);
  ASSERT_THAT(field.attributes, SizeIs(1));
  EXPECT_EQ(field.attributes[0].name, "units");
  EXPECT_EQ(field.attributes[0].value.text, "K");
  EXPECT_EQ(find(reports[0], "/data/big_endian")->type, "int32be");
  EXPECT_EQ(find(reports[0], "/data/particles")->type, "compound{position: float64[3], id: int32}");
  EXPECT_EQ(find(reports[0], "/data/words")->type, "string");
  EXPECT_EQ(find(reports[0], "/data/lists")->type, "sequence of int32");
  EXPECT_EQ(find(reports[0], "/data/time")->shape, "scalar");
  std::vector<std::string> attributes;
  for (const auto& each : find(reports[0], "/")->attributes) {
    attributes.push_back(each.name + "=" + each.value.text);
  }
  EXPECT_THAT(attributes, ElementsAre("code=write_tree", "grid=[100, 40]", "step=25", "time=0.25"));
}

TEST_F(Inspect, OtherFilesAreNoErrors) {
  const std::vector<DatasetFile> files = {write("notes.txt", "text\n"), make("a.h5"),
                                          write("empty", "")};
  const auto reports = inspect(files, Depth::kCheck);
  ASSERT_THAT(reports, SizeIs(3));
  EXPECT_FALSE(reports[0].hdf5);
  EXPECT_TRUE(reports[1].hdf5);
  EXPECT_FALSE(reports[2].hdf5);
  for (const auto& report : reports) EXPECT_THAT(report.problems, IsEmpty());
}

// Checkpoints of different times may have files of the same name.
TEST_F(Inspect, EachDatasetHasItsOwnFiles) {
  DatasetFile old = make("old.h5", "0.25");
  DatasetFile fresh = make("fresh.h5", "0.75");
  old.name = fresh.name = "same.h5";
  std::vector<std::string> times;
  const Status status =
      inspect_files(real_file_system(), directory_, {{{}, {old}}, {{}, {fresh}}}, Depth::kTree,
                    options_, [&](const FileReport& report) {
                      times.push_back(std::to_string(report.dataset) + " " +
                                      find(report, "/")->attributes[3].value.text);
                    });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(times, ElementsAre("0 0.25", "1 0.75"));
}

TEST_F(Inspect, AFileAfterAUserBlockIsHdf5) {
  make("a.h5");
  const std::vector<DatasetFile> files = {
      write("block.h5", std::string(1024, 'x') + content("a.h5"))};
  const auto reports = inspect(files, Depth::kCheck);
  EXPECT_TRUE(reports.at(0).hdf5);
}

TEST_F(Inspect, ATruncatedFileIsDamaged) {
  make("a.h5");
  const std::string whole = content("a.h5");
  const std::vector<DatasetFile> files = {write("half.h5", whole.substr(0, whole.size() / 2)),
                                          write("head.h5", whole.substr(0, 8)), plain("a.h5")};
  const auto reports = inspect(files, Depth::kCheck);
  EXPECT_THAT(reports.at(0).problems, Contains(HasSubstr("truncated file")));
  EXPECT_THAT(reports.at(1).problems, Contains(HasSubstr("cannot be opened as HDF5")));
  EXPECT_THAT(reports.at(2).problems, IsEmpty());
}

TEST_F(Inspect, CheckReadsTheChunks) {
  make("a.h5");
  std::string bytes = content("a.h5");
  // The compressed chunks are the only place with this begin of a zlib stream.
  const std::size_t chunk = bytes.find("\x78\x9c");
  ASSERT_NE(chunk, std::string::npos);
  bytes[chunk + 40] = static_cast<char>(bytes[chunk + 40] ^ 0x55);
  const std::vector<DatasetFile> files = {write("bad.h5", bytes)};
  EXPECT_THAT(inspect(files).at(0).problems, IsEmpty());
  EXPECT_THAT(inspect(files, Depth::kCheck).at(0).problems,
              Contains(HasSubstr("cannot read /data/field")));
}

TEST_F(Inspect, CheckComparesChecksums) {
  std::vector<DatasetFile> files = {write("notes.txt", "text\n"), write("other.txt", "text\n")};
  files[0].crc = 1;
  files[1].size = 4;
  const auto reports = inspect(files, Depth::kCheck);
  EXPECT_THAT(reports.at(0).problems, Contains(HasSubstr("has the checksum")));
  EXPECT_THAT(reports.at(1).problems, Contains(HasSubstr("has 5 bytes instead of 4")));
}

// Bytes changed at random: HDF5 may say what it likes, but every file is reported, and the good one
// behind it as good.
TEST_F(Inspect, GarbledFilesNeverEndTheCommand) {
  make("a.h5");
  const std::string whole = content("a.h5");
  std::mt19937 random(7);
  std::vector<DatasetFile> files;
  for (int i = 0; i < 150; ++i) {
    std::string bytes = whole;
    const auto changes = 1 + random() % 20;
    // Mostly in the metadata at the begin.
    const std::size_t range = i % 2 == 0 ? 2500 : bytes.size();
    for (std::size_t j = 0; j < changes; ++j) {
      bytes[8 + random() % (range - 8)] = static_cast<char>(random());
    }
    files.push_back(write("garbled" + std::to_string(i) + ".h5", bytes));
  }
  files.push_back(plain("a.h5"));
  options_.patience = std::chrono::seconds(5);
  for (const Depth depth : {Depth::kTree, Depth::kCheck}) {
    const auto reports = inspect(files, depth);
    ASSERT_THAT(reports, SizeIs(files.size()));
    EXPECT_THAT(reports.back().problems, IsEmpty());
    const auto damaged = std::ranges::count_if(
        reports, [](const FileReport& report) { return !report.problems.empty(); });
    EXPECT_GT(damaged, 20);
  }
}

TEST_F(Inspect, TheSameFilesDoNotDiffer) {
  const std::vector<DatasetFile> first = {make("a.h5")};
  const std::vector<DatasetFile> second = {make("b.h5")};
  const auto reports = compare(first, second);
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].count, 0U);
  EXPECT_THAT(reports[0].problems, IsEmpty());
  EXPECT_EQ(reports[0].objects, 14U);
}

TEST_F(Inspect, DifferencesAreCountedAndMeasured) {
  const std::vector<DatasetFile> first = {make("a.h5", "0.25")};
  const std::vector<DatasetFile> second = {make("b.h5", "0.75")};
  const auto reports = compare(first, second);
  std::vector<std::string> lines;
  for (const auto& each : reports.at(0).differences) lines.push_back(each.path + ": " + each.what);
  EXPECT_THAT(lines, Contains("/@time: values differ: 0.25, 0.75"));
  EXPECT_THAT(lines, Contains("/@step: values differ: 25, 75"));
  EXPECT_THAT(lines, Contains("/data/field: 4000 of 4000 values differ, by up to 0.5"));
  EXPECT_THAT(lines, Contains("/data/time: 1 of 1 values differ, by up to 0.5"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("/data/particles"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("/data/words"))));
}

TEST_F(Inspect, ValuesAreFoundByName) {
  make("a.h5", "0.75");
  DatasetRow row;
  FilemapEntry entry;
  entry.directory = directory_;
  FileMeta meta;
  meta.file = "a.h5";
  entry.files = {meta};
  row.cached = {entry};
  row.cached_ranks = {0};
  const std::vector<DatasetRow> rows = {row};
  std::vector<std::string> found;
  const Status status = find_values(
      real_file_system(), directory_, rows,
      {"time", "level", "/data/field@units", "/data/time", "code", "none", "/none@x"}, options_,
      [&](std::size_t, const Values& values, const std::vector<std::string>& problems) {
        EXPECT_THAT(problems, IsEmpty());
        for (const auto& value : values) found.push_back(value ? value->text : "-");
      });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(found, ElementsAre("0.75", "75", "K", "0.75", "write_tree", "-", "-"));
}

// --- the worker ----------------------------------------------------------------------------------

struct Outcome {
  Status status;
  std::vector<std::string> lines;
};

Outcome run(std::size_t count,
            const std::function<void(std::size_t, vfd::Hdf5Reader&, WorkerChannel&)>& work_of) {
  Outcome outcome;
  Hdf5Work work;
  work.count = count;
  work.run = work_of;
  work.patience = std::chrono::seconds(3);
  work.received = [&](std::size_t piece, const nlohmann::json& message) {
    outcome.lines.push_back(std::to_string(piece) + " " + message.dump());
  };
  work.finished = [&](std::size_t piece, const Status& how) {
    outcome.lines.push_back(std::to_string(piece) + " " +
                            (how.ok() ? "ok" : std::string(how.message())));
  };
  outcome.status = run_hdf5_work(work);
  return outcome;
}

TEST(Hdf5Worker, GoesOnAfterACrash) {
  const Outcome outcome = run(4, [](std::size_t piece, vfd::Hdf5Reader&, WorkerChannel& channel) {
    channel.send({{"at", piece}});
    if (piece == 1) ::raise(SIGSEGV);
    if (piece == 2) std::abort();
  });
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_THAT(outcome.lines,
              ElementsAre("0 {\"at\":0}", "0 ok", "1 {\"at\":1}",
                          "1 HDF5 crashed while reading it (Segmentation fault)", "2 {\"at\":2}",
                          "2 HDF5 crashed while reading it (Aborted)", "3 {\"at\":3}", "3 ok"));
}

TEST(Hdf5Worker, GivesUpWhatDoesNotEnd) {
  const Outcome outcome = run(2, [](std::size_t piece, vfd::Hdf5Reader&, WorkerChannel&) {
    if (piece == 0) std::this_thread::sleep_for(std::chrono::hours(24));
  });
  EXPECT_THAT(outcome.lines, ElementsAre("0 HDF5 did not come to an end with it", "1 ok"));
}

TEST(Hdf5Worker, LongWorkThatGivesSignsOfLifeIsNotGivenUp) {
  const Outcome outcome = run(1, [](std::size_t, vfd::Hdf5Reader&, WorkerChannel& channel) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (std::chrono::steady_clock::now() < end) {
      channel.alive();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  EXPECT_THAT(outcome.lines, ElementsAre("0 ok"));
}

TEST(Hdf5Worker, AnExceptionIsTheEndOfOnePiece) {
  const Outcome outcome = run(2, [](std::size_t piece, vfd::Hdf5Reader&, WorkerChannel&) {
    if (piece == 0) throw std::bad_alloc();
  });
  EXPECT_THAT(outcome.lines, ElementsAre("0 std::bad_alloc", "1 ok"));
}

TEST(Hdf5Worker, SaysThatHdf5CannotBeLoaded) {
  Hdf5Work work;
  work.count = 1;
  work.run = [](std::size_t, vfd::Hdf5Reader&, WorkerChannel&) {};
  work.finished = [](std::size_t, const Status&) { FAIL(); };
  work.library = "/none/libscr_hdf5_reader.so";
  const Status status = run_hdf5_work(work);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot load HDF5"));
}

}  // namespace
}  // namespace scr::tools
