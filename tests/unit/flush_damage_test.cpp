// Every flipped byte and every cut of a file in the prefix directory is noticed and named; the
// older dataset still comes back. No wrong byte is ever accepted: the fixture compares all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/flush_fixture.hpp"

namespace scr::flush::testing {
namespace {

using ::testing::HasSubstr;

class Damage : public ::testing::TestWithParam<FlushOptions> {
 protected:
  void SetUp() override {
    run_.write_dataset(1);
    run_.write_dataset(2);
    run_.flush_all(1, GetParam());
    run_.flush_all(2, GetParam());
    before_ = run_.snapshot();
  }

  static bool is_metadata(const std::string& name) {
    return name.starts_with(".scr/") && name.find("/ctr.") == std::string::npos;
  }
  static bool is_parity(const std::string& name) {
    return name.find("ctr.parity") != std::string::npos;
  }
  // Files of dataset 2: the damage is done there.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : before_) {
      if (name.find("dataset.2") != std::string::npos || name.find("ckpt.2") != std::string::npos ||
          name == "top.2") {
        names.push_back(name);
      }
    }
    return names;
  }

  // The restart tries dataset 2, says what is wrong with it, and takes dataset 1.
  void expect_noticed(const std::string& name) {
    std::string messages;
    bool all_ok = true;
    for (const Status& status : run_.fetch("scr.dataset.2")) {
      messages += std::string(status.message()) + "\n";
      all_ok = all_ok && status.ok();
      EXPECT_FALSE(status.is_transient()) << status.to_string();
    }
    // Parity is not needed as long as the data is whole.
    EXPECT_EQ(all_ok, is_parity(name)) << name;
    if (!is_parity(name)) {
      EXPECT_THAT(messages, HasSubstr(name));
    }
    EXPECT_TRUE(run_.fetches("scr.dataset.1"));
    EXPECT_THAT(verify("scr.dataset.2"), HasSubstr(name));
    EXPECT_EQ(verify("scr.dataset.1"), "");
  }
  std::string verify(const std::string& directory) {
    std::vector<std::string> problems;
    const Status status =
        verify_dataset(real_file_system(), run_.prefix(), directory, {}, problems);
    return std::string(status.message()) + fmt::format("{}", fmt::join(problems, "\n"));
  }

  TestRun run_;
  std::map<std::string, std::string> before_;
};

INSTANTIATE_TEST_SUITE_P(Prefix, Damage, ::testing::Values(plain_files(), containers(1)),
                         [](const auto& param) {
                           return param.param.containers ? "Containers" : "PlainFiles";
                         });

TEST_P(Damage, AFlippedByteInAnyFileIsNoticedAndNamed) {
  for (const std::string& name : files()) {
    const std::string& bytes = before_.at(name);
    // All regions of metadata, and beginning, middle and end of data.
    const std::size_t step = is_metadata(name) ? 13 : bytes.size() / 2 + 1;
    for (std::size_t offset = 0; offset < bytes.size(); offset += step) {
      for (std::size_t at : {offset, bytes.size() - 1 - offset}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
        write_bytes(run_.prefix() + "/" + name, damaged);
        SCOPED_TRACE(fmt::format("byte {} of {}", at, name));
        expect_noticed(name);
      }
    }
    write_bytes(run_.prefix() + "/" + name, bytes);
  }
}

TEST_P(Damage, ACutFileIsNoticedAndNamed) {
  for (const std::string& name : files()) {
    const std::string& bytes = before_.at(name);
    for (std::size_t length : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      if (length >= bytes.size()) continue;  // an empty file cannot be cut
      write_bytes(run_.prefix() + "/" + name, bytes.substr(0, length));
      SCOPED_TRACE(fmt::format("{} cut to {} bytes", name, length));
      expect_noticed(name);
    }
    write_bytes(run_.prefix() + "/" + name, bytes);
  }
}

TEST_P(Damage, AMissingFileIsNoticedAndNamed) {
  for (const std::string& name : files()) {
    std::filesystem::remove(run_.prefix() + "/" + name);
    SCOPED_TRACE(name);
    expect_noticed(name);
    write_bytes(run_.prefix() + "/" + name, before_.at(name));
  }
}

TEST_P(Damage, AFileThatIsTooLongIsNoticedUnlessItIsAContainer) {
  for (const std::string& name : files()) {
    if (name.find("/ctr.") != std::string::npos) continue;  // only its segments are ever read
    write_bytes(run_.prefix() + "/" + name, before_.at(name) + "x");
    SCOPED_TRACE(name);
    expect_noticed(name);
    write_bytes(run_.prefix() + "/" + name, before_.at(name));
  }
}

TEST_P(Damage, AnyFlippedByteOrCutOfTheIndexIsNoticedAndNamed) {
  const std::string name = ".scr/index.scr";
  const std::string bytes = before_.at(name);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    for (const std::string& wrong : {damaged, bytes.substr(0, i)}) {
      write_bytes(run_.prefix() + "/" + name, wrong);
      const auto index = read_index(real_file_system(), run_.prefix());
      ASSERT_EQ(index.status().code(), StatusCode::kCorrupt) << "byte " << i;
      ASSERT_THAT(std::string(index.status().message()), HasSubstr(name));
    }
  }
}

// The files of one dataset in the place of another's: whole, but not the right ones. (Who puts
// another's summary or rank2file there gets that other dataset; a summary is compared with the
// index by the runtime.)
TEST_P(Damage, DataOfAnotherDatasetIsNotAccepted) {
  for (const std::string& name : files()) {
    if (is_metadata(name)) continue;
    std::string other = name;
    for (std::size_t at = 0; (at = other.find('2', at)) != std::string::npos; ++at) {
      if (at == 0 || other[at - 1] == '.') other[at] = '1';
    }
    const auto found = before_.find(other);
    if (found == before_.end() || found->second == before_.at(name)) continue;
    write_bytes(run_.prefix() + "/" + name, found->second);
    SCOPED_TRACE(name);
    EXPECT_EQ(run_.fetches("scr.dataset.2"), is_parity(name));
    write_bytes(run_.prefix() + "/" + name, before_.at(name));
  }
}

}  // namespace
}  // namespace scr::flush::testing
