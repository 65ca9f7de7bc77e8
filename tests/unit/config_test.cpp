// The configuration: grammar, sources and their order, descriptors, errors a user would see.
#include "core/base/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace scr::config {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Environment plain_environment() { return Environment({{"HOME", "/home/u"}, {"PWD", "/work dir"}}); }

ConfigSources user_text(std::string text) {
  return {.environment = plain_environment(),
          .user_file = SourceFile{"user.conf", std::move(text)}};
}

// Builds and expects success.
Config built(const ConfigSources& sources) {
  std::vector<std::string> errors;
  Result<Config> config = Config::build(sources, &errors);
  EXPECT_THAT(errors, IsEmpty());
  if (!config.ok()) return Config::build({.environment = plain_environment()}).value();
  return *std::move(config);
}

std::vector<std::string> errors_of(const ConfigSources& sources) {
  std::vector<std::string> errors;
  EXPECT_FALSE(Config::build(sources, &errors).ok());
  return errors;
}

std::vector<fs::path> files_in(const std::string& directory) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(TEST_DATA_DIR "/config/" + directory)) {
    if (entry.path().extension() == ".conf") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// --- corpus -----------------------------------------------------------------------------------

TEST(ConfigCorpus, RefusesEveryInvalidFileWithTheExpectedWords) {
  const std::vector<fs::path> paths = files_in("invalid");
  ASSERT_GE(paths.size(), 30u);
  for (const fs::path& path : paths) {
    ConfigSources sources = user_text(read_text(path));
    sources.user_file->path = path.filename();
    std::vector<std::string> errors;
    const Result<Config> config = Config::build(sources, &errors);
    ASSERT_FALSE(config.ok()) << path;
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
    ASSERT_FALSE(errors.empty()) << path;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(errors.front()));
    std::string joined;
    for (const std::string& error : errors) joined += error + "\n";
    std::istringstream expected(read_text(fs::path(path).replace_extension(".expect")));
    for (std::string line; std::getline(expected, line);) {
      EXPECT_THAT(joined, HasSubstr(line)) << path;
    }
  }
}

TEST(ConfigCorpus, AcceptsEveryValidFile) {
  const std::vector<fs::path> paths = files_in("valid");
  ASSERT_GE(paths.size(), 8u);
  for (const fs::path& path : paths) {
    const Result<Config> config = Config::build(user_text(read_text(path)));
    EXPECT_TRUE(config.ok()) << path << ": " << config.status().to_string();
  }
}

// --- values -----------------------------------------------------------------------------------

TEST(Config, HasTheDefaultsWithoutAnySource) {
  const Config config = built({.environment = plain_environment()});
  EXPECT_TRUE(config.get_bool("SCR_ENABLE"));
  EXPECT_EQ(config.get_uint("SCR_FLUSH"), 10u);
  EXPECT_EQ(config.get_int("SCR_RUNS"), 1);
  EXPECT_EQ(config.get_bytes("SCR_CONTAINER_SIZE"), 100ull << 30);
  EXPECT_EQ(config.get_double("SCR_CHECKPOINT_OVERHEAD"), 0.0);
  EXPECT_EQ(config.get_path("SCR_PREFIX"), "/work dir");
  EXPECT_EQ(config.flush_type(), FlushType::kSync);
  EXPECT_EQ(config.origin("SCR_FLUSH").to_string(), "default");
  EXPECT_THAT(config.warnings(), IsEmpty());
}

TEST(Config, FlushesEveryDatasetInTheBackgroundInTransparentMode) {
  const Config config = built({.environment = plain_environment(), .mode = Mode::kTransparent});
  EXPECT_EQ(config.get_uint("SCR_FLUSH"), 1u);
  EXPECT_TRUE(config.get_bool("SCR_FLUSH_ASYNC"));
  EXPECT_EQ(config.flush_type(), FlushType::kPthread);
}

TEST(Config, TakesThreadsForAsynchronousFlushUnlessAnotherTypeIsNamed) {
  EXPECT_EQ(built(user_text("SCR_FLUSH_ASYNC=1")).flush_type(), FlushType::kPthread);
  EXPECT_EQ(built(user_text("SCR_FLUSH_ASYNC=1\nSCR_FLUSH_TYPE=daemon")).flush_type(),
            FlushType::kDaemon);
}

TEST(Config, ReadsEveryKindOfValue) {
  const Config config =
      built(user_text(read_text(TEST_DATA_DIR "/config/valid/all_kinds_of_values.conf")));
  EXPECT_TRUE(config.get_bool("SCR_ENABLE"));
  EXPECT_EQ(config.get_int("SCR_RUNS"), -1);
  EXPECT_EQ(config.get_bytes("SCR_CONTAINER_SIZE"), 3ull << 29);
  EXPECT_EQ(config.get_double("SCR_CHECKPOINT_SECONDS"), 0.5);
  EXPECT_EQ(config.get_double("SCR_CHECKPOINT_OVERHEAD"), 10.0);
  EXPECT_EQ(config.get_string("SCR_COPY_TYPE"), "PARTNER");
  EXPECT_EQ(config.get_string("SCR_JOB_NAME"), "a # name with /home/u and \"quotes\"");
  EXPECT_EQ(config.get_string("SCR_CLUSTER_NAME"), "$HOME stays");
  EXPECT_EQ(config.get_path("SCR_PREFIX"), "/home/u/run 1");
  EXPECT_EQ(config.get_string("SCR_MARKERS"), "off");
  EXPECT_EQ(config.origin("SCR_RUNS").to_string(), "user.conf:3");
}

TEST(Config, KeepsDollarSignsThatNameNoVariable) {
  const Config config =
      built(user_text(read_text(TEST_DATA_DIR "/config/valid/literal_dollar.conf")));
  EXPECT_EQ(config.get_string("SCR_JOB_NAME"), "cost$5$");
  EXPECT_THAT(errors_of(user_text("SCR_JOB_NAME=a$$b")),
              ElementsAre(HasSubstr("the environment variable 'b' is not set")));
}

TEST(Config, MakesPathsAbsolute) {
  EXPECT_EQ(built(user_text("SCR_PREFIX=../x//y/./")).get_path("SCR_PREFIX"), "/x/y");
}

TEST(Config, ReportsAllErrorsAndCountsThem) {
  std::vector<std::string> errors;
  const auto config = Config::build(user_text("SCR_FLUSH=x\nSCR_DEBUG=y\nNOPE=1\n"), &errors);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(errors.size(), 3u);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("user.conf:1: SCR_FLUSH: 'x'"));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("and 2 more errors"));
}

TEST(ConfigDeathTest, EndsAProgramThatAsksForAParameterThatDoesNotExist) {
  const Config config = built({.environment = plain_environment()});
  EXPECT_DEATH(config.get_bool("SCR_NOPE"), "SCR_NOPE");
  EXPECT_DEATH(config.get_bool("SCR_FLUSH"), "another type");
}

// --- order of sources -------------------------------------------------------------------------

void set_in(Source source, std::uint64_t value, ConfigSources& sources) {
  const std::string text = "SCR_FLUSH=" + std::to_string(value);
  switch (source) {
    case Source::kEnvironment:
      sources.environment.set("SCR_FLUSH", std::to_string(value));
      break;
    case Source::kUserFile:
      sources.user_file = SourceFile{"user.conf", text};
      break;
    case Source::kCall:
      sources.calls = {text};
      break;
    case Source::kSystemFile:
      sources.system_file = SourceFile{"system.conf", text};
      break;
    case Source::kDefault:
      break;
  }
}

TEST(ConfigOrder, TheStrongerOfEveryTwoSourcesWins) {
  const std::vector<Source> order = {Source::kEnvironment, Source::kUserFile, Source::kCall,
                                     Source::kSystemFile, Source::kDefault};
  for (std::size_t strong = 0; strong + 1 < order.size(); ++strong) {
    for (std::size_t weak = strong + 1; weak < order.size(); ++weak) {
      ConfigSources sources{.environment = plain_environment()};
      set_in(order[weak], 77, sources);
      set_in(order[strong], 33, sources);
      const Config config = built(sources);
      EXPECT_EQ(config.get_uint("SCR_FLUSH"), 33u)
          << source_name(order[strong]) << " against " << source_name(order[weak]);
      EXPECT_EQ(config.origin("SCR_FLUSH").source, order[strong]);
    }
  }
}

TEST(ConfigOrder, AnInvalidValueIsAnErrorEvenIfAStrongerSourceWins) {
  ConfigSources sources = user_text("SCR_FLUSH=x");
  sources.environment.set("SCR_FLUSH", "1");
  EXPECT_THAT(errors_of(sources), ElementsAre(HasSubstr("user.conf:1: SCR_FLUSH: 'x'")));
}

TEST(ConfigOrder, AllDescriptorsOfAKindComeFromOneSource) {
  ConfigSources sources = user_text("CKPT=0 TYPE=SINGLE");
  sources.system_file = SourceFile{"system.conf",
                                   "CKPT=0 TYPE=XOR\nCKPT=1 INTERVAL=2 TYPE=RS\n"
                                   "GROUPS=a POWER=1\n"};
  const Config config = built(sources);
  ASSERT_EQ(config.redundancy().size(), 1u);
  EXPECT_EQ(config.redundancy()[0].type, CopyType::kSingle);
  EXPECT_EQ(config.groups().size(), 1u);
}

// --- environment ------------------------------------------------------------------------------

TEST(ConfigEnvironment, WarnsOfUnknownNames) {
  ConfigSources sources{.environment = plain_environment()};
  sources.environment.set("SCR_FLUSHH", "1");
  sources.environment.set("SCR_FAULT", "write:1");
  sources.environment.set("SCRATCH", "1");
  EXPECT_THAT(built(sources).warnings(),
              ElementsAre(testing::StartsWith("environment: unknown parameter 'SCR_FLUSHH' has no "
                                              "effect; did you mean SCR_FLUSH")));
}

TEST(ConfigEnvironment, RefusesInvalidValuesAndNamesTheVariable) {
  ConfigSources sources{.environment = plain_environment()};
  sources.environment.set("SCR_FLUSH", "often");
  EXPECT_THAT(errors_of(sources),
              ElementsAre(HasSubstr("environment variable SCR_FLUSH: 'often' is not")));
}

TEST(ConfigEnvironment, TakesAnEmptyVariableAsNotSet) {
  ConfigSources sources = user_text("SCR_FLUSH=3");
  sources.environment.set("SCR_FLUSH", "");
  EXPECT_EQ(built(sources).get_uint("SCR_FLUSH"), 3u);
}

TEST(ConfigEnvironment, ReplacesVariablesInVariables) {
  ConfigSources sources{.environment = plain_environment()};
  sources.environment.set("SCR_PREFIX", "$HOME/run's \"1\"");
  EXPECT_EQ(built(sources).get_path("SCR_PREFIX"), "/home/u/run's \"1\"");
}

// --- rights -----------------------------------------------------------------------------------

TEST(ConfigRights, UsersCannotOverrideTheBasesOfTheSystemFile) {
  for (const std::string name : {"SCR_CNTL_BASE", "SCR_CACHE_BASE"}) {
    for (const Source source : {Source::kEnvironment, Source::kUserFile, Source::kCall}) {
      ConfigSources sources{.environment = plain_environment()};
      sources.system_file = SourceFile{"system.conf", name + "=/fixed"};
      if (source == Source::kEnvironment) sources.environment.set(name, "/mine");
      if (source == Source::kUserFile) sources.user_file = SourceFile{"user.conf", name + "=/mine"};
      if (source == Source::kCall) sources.calls = {name + "=/mine"};
      const Config config = built(sources);
      EXPECT_EQ(config.get_string(name), "/fixed");
      ASSERT_EQ(config.warnings().size(), 1u);
      EXPECT_THAT(config.warnings()[0],
                  HasSubstr(name + "=/mine is ignored: the system file sets"));
    }
  }
}

TEST(ConfigRights, UsersMaySetTheBasesThatTheSystemFileLeaves) {
  ConfigSources sources = user_text("SCR_CNTL_BASE=/mine\nSCR_CACHE_BASE=/ssd");
  sources.system_file = SourceFile{"system.conf", "SCR_FLUSH=2"};
  const Config config = built(sources);
  EXPECT_EQ(config.get_string("SCR_CNTL_BASE"), "/mine");
  EXPECT_EQ(config.get_string("SCR_CACHE_BASE"), "/ssd");
}

TEST(ConfigRights, UsersCannotAddStoresToTheListOfTheSystemFile) {
  ConfigSources sources = user_text("STORE=/mine\nSCR_CACHE_BASE=/mine");
  sources.system_file = SourceFile{"system.conf", "STORE=/ssd\nSTORE=/dev/shm"};
  const Config config = built(sources);
  EXPECT_EQ(config.find_store("/mine"), nullptr);
  EXPECT_EQ(config.stores().size(), 2u);
  EXPECT_THAT(config.warnings(),
              ElementsAre(HasSubstr("user.conf:1: STORE=/mine is ignored: the system file lists"),
                          HasSubstr("user.conf:2: SCR_CACHE_BASE=/mine is ignored")));
}

TEST(ConfigRights, UsersMayChooseAndTuneStoresOfTheList) {
  ConfigSources sources = user_text("STORE=/ssd/ COUNT=4\nSCR_CACHE_BASE=/ssd");
  sources.system_file = SourceFile{"system.conf", "STORE=/ssd\nSTORE=/dev/shm"};
  const Config config = built(sources);
  ASSERT_EQ(config.stores().size(), 1u);
  EXPECT_EQ(config.stores()[0].count, 4u);
  EXPECT_THAT(config.warnings(), IsEmpty());
}

// --- SCR_Config -------------------------------------------------------------------------------

class ConfigCall : public testing::Test {
 protected:
  std::optional<std::string> call(std::string_view text) {
    const auto answer = config_.call(text);
    EXPECT_TRUE(answer.ok()) << answer.status().to_string();
    return answer.ok() ? *answer : std::nullopt;
  }
  std::string error(std::string_view text) {
    const auto answer = config_.call(text);
    EXPECT_FALSE(answer.ok()) << text;
    return std::string(answer.status().message());
  }
  Config config_ = Config::resolve({.environment = plain_environment()}).value();
};

TEST_F(ConfigCall, SetsAsksAndTakesBack) {
  EXPECT_EQ(call("SCR_DEBUG"), "0");
  EXPECT_EQ(call("SCR_DEBUG=1"), std::nullopt);
  EXPECT_EQ(call("SCR_DEBUG"), "1");
  EXPECT_EQ(config_.origin("SCR_DEBUG").to_string(), "SCR_Config call 1");
  call("SCR_DEBUG=2");
  EXPECT_EQ(call("SCR_DEBUG"), "2");
  call("SCR_DEBUG=");
  EXPECT_EQ(call("SCR_DEBUG"), "0");
  EXPECT_EQ(call("SCR_CURRENT"), std::nullopt);
}

TEST_F(ConfigCall, SetsDescriptorsFieldByField) {
  call("STORE=/ssd GROUP=NODE COUNT=3");
  call("CKPT=0 STORE=/ssd TYPE=RS");
  call("CKPT=0 SET_SIZE=4 SET_FAILURES=1");
  ASSERT_EQ(config_.redundancy().size(), 1u);
  EXPECT_EQ(config_.redundancy()[0].type, CopyType::kRs);
  EXPECT_EQ(config_.redundancy()[0].set_size, 4u);
  EXPECT_EQ(call("CKPT=0 TYPE"), "RS");
  EXPECT_EQ(call("CKPT=0 INTERVAL"), "1");
  EXPECT_EQ(call("STORE=/ssd/ COUNT"), "3");
  EXPECT_EQ(call("STORE=/other COUNT"), std::nullopt);
  call("CKPT=0 TYPE=");
  EXPECT_EQ(call("CKPT=0 TYPE"), "XOR");
  call("CKPT=");
  EXPECT_EQ(call("CKPT=0 SET_SIZE"), std::nullopt);
  EXPECT_TRUE(config_.check().ok());
}

TEST_F(ConfigCall, LeavesChecksBetweenDescriptorsToTheEnd) {
  call("CKPT=0 STORE=/ssd");
  EXPECT_THAT(std::string(config_.check().message()),
              HasSubstr("SCR_Config call 1: CKPT=0: unknown store '/ssd'"));
  call("STORE=/ssd");
  EXPECT_TRUE(config_.check().ok());
}

TEST_F(ConfigCall, KeepsTheConfigurationIfItFails) {
  call("SCR_FLUSH=5");
  EXPECT_THAT(error("SCR_FLUSH=x"), HasSubstr("SCR_Config(\"SCR_FLUSH=x\")"));
  EXPECT_THAT(error("SCR_FLUSHH=1"), HasSubstr("did you mean SCR_FLUSH"));
  EXPECT_THAT(error("SCR_FLUSHH="), HasSubstr("unknown parameter"));
  EXPECT_THAT(error("SCR_FLUSHH"), HasSubstr("did you mean SCR_FLUSH"));
  EXPECT_THAT(error("SCR_CONF_FILE=/x"), HasSubstr("only be set in the environment"));
  EXPECT_THAT(error("SCR_FLUSH=1\nSCR_DEBUG=1"), HasSubstr("control character"));
  EXPECT_THAT(error(""), HasSubstr("nothing to set"));
  EXPECT_THAT(error("CKPT=0 NOPE"), HasSubstr("CKPT has no field 'NOPE'"));
  EXPECT_THAT(error("CKPT"), HasSubstr("unknown parameter 'CKPT'"));
  EXPECT_EQ(call("SCR_FLUSH"), "5");
  EXPECT_THAT(config_.sources().calls, ElementsAre("SCR_FLUSH=5"));
}

}  // namespace
}  // namespace scr::config
