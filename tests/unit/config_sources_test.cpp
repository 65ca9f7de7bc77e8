// Where the configuration is read from, and how it travels from the process that reads it.
#include "core/base/config_sources.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/config.hpp"

namespace scr::config {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Config built(const ConfigSources& sources) {
  Result<Config> config = Config::build(sources);
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  return config.ok() ? *std::move(config) : Config::build({}).value();
}

class ConfigFiles : public testing::Test {
 protected:
  ConfigFiles() {
    std::string pattern = (fs::temp_directory_path() / "config_test.XXXXXX").native();
    directory_ = mkdtemp(pattern.data());
    environment_.set("PWD", directory_.native());
  }
  ~ConfigFiles() override { fs::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
    return (directory_ / name).native();
  }
  Result<ConfigSources> read() const {
    return read_files(real_file_system(), environment_, {.system_file = system_file_});
  }

  fs::path directory_;
  Environment environment_;
  std::string system_file_;
};

TEST_F(ConfigFiles, NeedNotExist) {
  const auto sources = read();
  ASSERT_TRUE(sources.ok()) << sources.status().to_string();
  EXPECT_FALSE(sources->user_file);
  EXPECT_FALSE(sources->system_file);
}

TEST_F(ConfigFiles, AreTheScrconfOfThePrefixAndTheSystemFile) {
  fs::create_directory(directory_ / "prefix");
  const std::string user = write("prefix/.scrconf", "SCR_FLUSH=3\n");
  system_file_ = write("system.conf", "SCR_DEBUG=1\n");
  environment_.set("SCR_PREFIX", "prefix");
  const auto sources = read();
  ASSERT_TRUE(sources.ok()) << sources.status().to_string();
  const Config config = built(*sources);
  EXPECT_EQ(config.origin("SCR_FLUSH").to_string(), user + ":1");
  EXPECT_EQ(config.origin("SCR_DEBUG").to_string(), system_file_ + ":1");
  EXPECT_EQ(config.origin("SCR_DEBUG").source, Source::kSystemFile);
}

TEST_F(ConfigFiles, FollowThePrefixOfTheSystemFile) {
  fs::create_directory(directory_ / "prefix");
  write("prefix/.scrconf", "SCR_FLUSH=3\n");
  system_file_ = write("system.conf", "SCR_PREFIX=$PWD/prefix\n");
  const auto sources = read();
  ASSERT_TRUE(sources.ok());
  EXPECT_TRUE(sources->user_file);
}

TEST_F(ConfigFiles, FollowSCR_CONF_FILEAndASymbolicLink) {
  write(".scrconf", "SCR_FLUSH=3\n");
  write("real.conf", "SCR_FLUSH=4\n");
  fs::create_symlink("real.conf", directory_ / "link.conf");
  environment_.set("SCR_CONF_FILE", "link.conf");
  const auto sources = read();
  ASSERT_TRUE(sources.ok()) << sources.status().to_string();
  EXPECT_EQ(built(*sources).get_uint("SCR_FLUSH"), 4u);
}

TEST_F(ConfigFiles, MustExistIfNamed) {
  environment_.set("SCR_CONF_FILE", "missing.conf");
  const auto sources = read();
  ASSERT_FALSE(sources.ok());
  EXPECT_EQ(sources.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(sources.status().message()), HasSubstr("missing.conf'"));
  EXPECT_THAT(std::string(sources.status().message()), HasSubstr("unset SCR_CONF_FILE"));
}

TEST_F(ConfigFiles, MustBeSmallRegularTextFiles) {
  environment_.set("SCR_CONF_FILE", "x.conf");
  fs::create_directory(directory_ / "x.conf");
  EXPECT_THAT(std::string(read().status().message()), HasSubstr("not a regular file"));
  fs::remove(directory_ / "x.conf");
  write("x.conf", std::string("SCR_FLUSH=1\0\n", 13));
  EXPECT_THAT(std::string(read().status().message()), HasSubstr("NUL bytes"));
  write("x.conf", std::string(2 << 20, '#'));
  EXPECT_THAT(std::string(read().status().message()), HasSubstr("more than the 1048576"));
}

TEST_F(ConfigFiles, TravelAsAHashWithTheEnvironmentOfTheirReader) {
  write(".scrconf", "SCR_PREFIX=$HOME/x\nSCR_JOB_NAME=''\n");
  environment_.set("HOME", "/home/rank0");
  environment_.set("SECRET", "s");
  environment_.set("SCR_FLUSH", "7");
  environment_.set("SCR_CLUSTER_NAME", "${CLUSTER}");
  environment_.set("CLUSTER", "big");
  auto sources = read();
  ASSERT_TRUE(sources.ok());
  sources->calls = {"SCR_DEBUG=1", "CKPT=0 TYPE=RS"};
  sources->mode = Mode::kTransparent;
  const Hash hash = sources->to_hash();
  EXPECT_EQ(hash.print().find("SECRET"), std::string::npos);
  const auto packed = hash.pack();
  ASSERT_TRUE(packed.ok());
  const auto unpacked = Hash::unpack(*packed);
  ASSERT_TRUE(unpacked.ok());
  const Environment local({{"HOME", "/home/rank1"}, {"SCR_FLUSH", "9"}, {"SCR_DEBUG", "3"}});
  const auto received = ConfigSources::from_hash(*unpacked, local);
  ASSERT_TRUE(received.ok()) << received.status().to_string();
  const Config config = built(*received);
  const Config original = built(*sources);
  for (const Parameter& parameter : parameters()) {
    EXPECT_EQ(config.get_string(parameter.name), original.get_string(parameter.name));
    EXPECT_EQ(config.origin(parameter.name).to_string(),
              original.origin(parameter.name).to_string());
  }
  EXPECT_EQ(config.get_uint("SCR_FLUSH"), 7u);
  EXPECT_EQ(config.get_string("SCR_PREFIX"), "/home/rank0/x");
  EXPECT_EQ(config.redundancy()[0].type, CopyType::kRs);
}

TEST(ConfigSettings, AreSplitAtSemicolonsAndLineEndsButNotInQuotes) {
  using Settings = std::vector<std::string>;
  EXPECT_EQ(split_settings(""), Settings{});
  EXPECT_EQ(split_settings(" ; \n;"), Settings{});
  EXPECT_EQ(split_settings("SCR_FLUSH=1; ROUTE=*.h5 TYPE=CKPT\nSCR_DEBUG=2"),
            (Settings{"SCR_FLUSH=1", "ROUTE=*.h5 TYPE=CKPT", "SCR_DEBUG=2"}));
  EXPECT_EQ(split_settings("SCR_PREFIX=\"/a;b\"; ROUTE='x;*' TYPE=CKPT"),
            (Settings{"SCR_PREFIX=\"/a;b\"", "ROUTE='x;*' TYPE=CKPT"}));
  EXPECT_EQ(split_settings(R"(A=\";B="\";";C='\';D=1)"),
            (Settings{R"(A=\")", R"(B="\";")", R"(C='\')", "D=1"}));
  EXPECT_EQ(split_settings("A=1 # don't; B=2 # \"\nC=3"),
            (Settings{"A=1 # don't", "B=2 # \"", "C=3"}));
  EXPECT_EQ(split_settings("A=1;\r# don't; B=2\r\nC=3"),
            (Settings{"A=1", "# don't", "B=2", "C=3"}));
  EXPECT_EQ(split_settings("A='open; B=2\nC=3"), (Settings{"A='open; B=2", "C=3"}));
}

TEST_F(ConfigFiles, AreRefusedAsAHashWithMissingParts) {
  EXPECT_EQ(ConfigSources::from_hash(Hash(), Environment()).status().code(), StatusCode::kCorrupt);
  Hash hash = ConfigSources{}.to_hash();
  hash.at("USER").set_value("PATH", "x");
  EXPECT_FALSE(ConfigSources::from_hash(hash, Environment()).ok());
}

}  // namespace
}  // namespace scr::config
