// A program that creates, changes, renames and deletes files at random, is killed now and then and
// starts again: with h5scr it sees at every step what it would see without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "tests/unit/session_fixture.hpp"

namespace scr::routing {
namespace {

struct Settings {
  std::string name;
  std::map<std::string, std::string> variables;
};

class RandomNamesTest : public SessionTest, public ::testing::WithParamInterface<Settings> {
 protected:
  void SetUp() override {
    for (const auto& [variable, value] : GetParam().variables) set(variable, value);
  }

  int any(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  std::string any_name() { return std::string(1, static_cast<char>('a' + any(4))) + ".h5"; }
  static void tick() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

  // The seed and what was done so far, for who wants to see it again.
  std::string story() const { return fmt::format("seed {}: {}", seed_, steps_); }
  void told(const std::string& step) { steps_ += step + "; "; }

  void create(const std::string& file) {
    const std::string text = fmt::format("{}-{}", file, ++version_);
    told(fmt::format("write {}", text));
    write(*session_, file, text);
    model_[file] = text;
  }

  void change(const std::string& file) {
    told("change " + file);
    auto opened = session_->open(name(file), OpenOptions::read_write());
    ASSERT_EQ(opened.ok(), model_.contains(file)) << story();
    if (!opened.ok()) return;
    const std::string text = fmt::format("{}+{}", file, ++version_);
    fill(*opened, text);
    ASSERT_TRUE(opened->file->close().ok());
    std::string& known = model_[file];
    known = text + (known.size() > text.size() ? known.substr(text.size()) : "");
  }

  void remove(const std::string& file) {
    told("unlink " + file);
    auto handled = session_->unlinked(name(file));
    ASSERT_TRUE(handled.ok()) << handled.status().message() << "; " << story();
    const bool gone = *handled || std::filesystem::remove(name(file));
    EXPECT_TRUE(gone || !model_.contains(file)) << story();
    model_.erase(file);
    if (held_name_ == file) held_name_.clear();
  }

  void move(const std::string& from, const std::string& to) {
    if (from == held_name_) return;  // is refused
    told(fmt::format("rename {} to {}", from, to));
    auto handled = session_->renamed(name(from), name(to));
    std::error_code error;
    if (handled.ok() && !*handled) std::filesystem::rename(name(from), name(to), error);
    EXPECT_EQ(handled.ok() && !error, model_.contains(from))
        << handled.status().message() << "; " << story();
    if (!handled.ok() || error || from == to) return;
    model_[to] = model_[from];
    model_.erase(from);
    if (held_name_ == to) held_name_.clear();
  }

  // A file that was written without h5scr, and long ago, gets the name.
  void put_old(const std::string& file) {
    const std::string source = directory_ / "outside";
    const std::string text = fmt::format("{}-old{}", file, ++version_);
    told(fmt::format("put {}", text));
    std::ofstream(source) << text;
    std::filesystem::last_write_time(
        source, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    auto handled = session_->renamed(source, name(file));
    ASSERT_TRUE(handled.ok()) << handled.status().message() << "; " << story();
    if (!*handled) std::filesystem::rename(source, name(file));
    model_[file] = text;
    if (held_name_ == file) held_name_.clear();
  }

  void hold(const std::string& file) {
    let_loose();
    told("hold " + file);
    auto opened = session_->open(name(file), OpenOptions::create_truncate());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    held_ = std::move(*opened);
    const std::string text = fmt::format("{}-held{}", file, ++version_);
    fill(held_, text);
    model_[file] = text;
    held_name_ = file;
  }

  void let_loose() {
    if (!held_.file) return;
    told("close");
    EXPECT_TRUE(held_.file->close().ok());
    held_ = {};
    held_name_.clear();
  }

  void flush_held() {
    if (!held_.routed) return;
    const int times = 1 + any(3);
    told(fmt::format("flush {} times", times));
    for (int i = 0; i < times; ++i) EXPECT_TRUE(held_.routed->flush_hint().ok());
  }

  void start_again(bool killed) {
    let_loose();
    told(killed ? "killed" : "ends");
    if (!killed) session_->finish();
    session_ = std::make_unique<Session>(file_system());
  }

  void step() {
    const std::string file = any_name();
    switch (any(16)) {
      case 0:
      case 1:
      case 2:
        return file == held_name_ ? void() : create(file);
      case 3:
      case 4:
        return file == held_name_ ? void() : change(file);
      case 5:
      case 6:
      case 7:
        return remove(file);
      case 8:
      case 9:
      case 10:
        return move(file, any_name());
      case 11:
        return put_old(file);
      case 12:
        return hold(file);
      case 13:
        return let_loose();
      case 14:
        return flush_held();
      default:
        return any(3) == 0 ? start_again(any(2) == 0) : void();
    }
  }

  void compare() {
    for (const char* file : {"a.h5", "b.h5", "c.h5", "d.h5"}) {
      const auto known = model_.find(file);
      auto opened = session_->open(name(file), OpenOptions::read());
      ASSERT_EQ(opened.ok(), known != model_.end())
          << file << ": " << (opened.ok() ? read(*session_, file) : opened.status().message())
          << "; " << story();
      if (known != model_.end()) {
        ASSERT_EQ(read(*session_, file), known->second) << story();
      }
    }
  }

  void run(unsigned seed, int steps) {
    seed_ = seed;
    random_.seed(seed);
    session_ = std::make_unique<Session>(file_system());
    for (int i = 0; i < steps && !HasFailure(); ++i) {
      step();
      if (!HasFailure()) compare();
      tick();
    }
    if (HasFailure()) return;
    start_again(/*killed=*/false);
    compare();
    if (GetParam().variables.contains("SCR_USE_CONTAINERS")) return;
    for (const char* file : {"a.h5", "b.h5", "c.h5", "d.h5"}) {
      const auto known = model_.find(file);
      EXPECT_EQ(real(file), known != model_.end() ? known->second : "missing") << story();
    }
  }

  std::unique_ptr<Session> session_;
  std::map<std::string, std::string> model_;  // name -> contents
  std::mt19937 random_;
  Session::Opened held_;
  std::string held_name_;  // empty: it has been deleted or replaced
  std::string steps_;
  unsigned seed_ = 0;
  int version_ = 0;
};

// H5SCR_SEED has one run alone again, H5SCR_SEEDS makes more of them.
TEST_P(RandomNamesTest, AProgramSeesTheNamesThatItWouldSeeWithoutH5scr) {
  const char* one = std::getenv("H5SCR_SEED");
  const char* many = std::getenv("H5SCR_SEEDS");
  const unsigned first = one != nullptr ? static_cast<unsigned>(std::stoul(one)) : 1;
  const unsigned count =
      one != nullptr ? 1 : (many != nullptr ? static_cast<unsigned>(std::stoul(many)) : 3);
  for (unsigned seed = first; seed < first + count && !HasFailure(); ++seed) {
    run(seed, 40);
    session_.reset();
    for (const char* part : {"prefix", "cache", "control"}) {
      std::filesystem::remove_all(directory_ / part);
      std::filesystem::create_directories(directory_ / part);
    }
    model_.clear();
    steps_.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, RandomNamesTest,
    ::testing::Values(
        Settings{"AtOnce", {}}, Settings{"InTheBackground", {{"SCR_FLUSH_ASYNC", "1"}}},
        Settings{"Late", {{"SCR_FLUSH_ASYNC", "1"}, {"SCR_FLUSH_ASYNC_BW", "300"}}},
        Settings{
            "LateWithRoom",
            {{"SCR_FLUSH_ASYNC", "1"}, {"SCR_FLUSH_ASYNC_BW", "300"}, {"SCR_CACHE_SIZE", "3"}}},
        Settings{"Containers", {{"SCR_USE_CONTAINERS", "1"}}},
        Settings{"ContainersLate",
                 {{"SCR_USE_CONTAINERS", "1"},
                  {"SCR_FLUSH_ASYNC", "1"},
                  {"SCR_FLUSH_ASYNC_BW", "300"},
                  {"SCR_CACHE_SIZE", "3"}}}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace scr::routing
