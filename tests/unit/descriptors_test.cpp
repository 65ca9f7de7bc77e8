// Descriptors: defaults, fields, which one takes a dataset, and printing them as lines.
#include "core/base/descriptors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/config.hpp"

namespace scr::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

ConfigSources user_text(std::string text) {
  return {.environment = Environment(Environment::Values{{"PWD", "/work dir"}}),
          .user_file = SourceFile{"user.conf", std::move(text)}};
}

Config built(const ConfigSources& sources) {
  Result<Config> config = Config::build(sources);
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  return config.ok() ? *std::move(config) : Config::build({}).value();
}

TEST(ConfigDescriptors, AreMadeFromParametersIfThereIsNoLine) {
  const Config config = built(
      user_text("SCR_CACHE_BASE=/ssd\nSCR_CACHE_SIZE=3\nSCR_COPY_TYPE=RS\nSCR_SET_SIZE=6\n"
                "SCR_SET_FAILURES=3\nSCR_GROUP=WORLD\nSCR_CACHE_BYPASS=1\nSCR_FLUSH_ASYNC=1\n"));
  ASSERT_EQ(config.stores().size(), 1u);
  EXPECT_EQ(print_setting(to_setting(config.stores()[0])),
            "STORE=/ssd GROUP=NODE COUNT=3 ENABLED=1 MKDIR=1 FLUSH=PTHREAD BYTES=0");
  ASSERT_EQ(config.redundancy().size(), 1u);
  EXPECT_EQ(print_setting(to_setting(config.redundancy()[0])),
            "CKPT=0 INTERVAL=1 GROUP=WORLD STORE=/ssd TYPE=RS BYPASS=1 SET_SIZE=6 SET_FAILURES=3 "
            "OUTPUT=0 ENABLED=1");
  EXPECT_THAT(config.routes(), IsEmpty());
}

TEST(ConfigDescriptors, ReadEveryField) {
  const Config config = built(user_text(read_text(TEST_DATA_DIR "/config/valid/multilevel.conf")));
  EXPECT_EQ(print_setting(to_setting(config.groups()[1])), "GROUPS=node2 POWER=psu1 SWITCH=2");
  EXPECT_EQ(print_setting(to_setting(*config.find_store("/ssd"))),
            "STORE=/ssd GROUP=NODE COUNT=3 ENABLED=1 MKDIR=0 FLUSH=DAEMON BYTES=200GB");
  EXPECT_EQ(print_setting(to_setting(config.redundancy()[1])),
            "CKPT=1 INTERVAL=4 GROUP=POWER STORE=/ssd TYPE=RS BYPASS=0 SET_SIZE=8 SET_FAILURES=3 "
            "OUTPUT=0 ENABLED=1");
}

TEST(ConfigDescriptors, TakeTheLargestIntervalThatDividesTheId) {
  const Config config = built(user_text(read_text(TEST_DATA_DIR "/config/valid/multilevel.conf")));
  const auto index_for = [&](std::uint64_t id, bool output = false) {
    return config.descriptor_for(id, output)->index;
  };
  EXPECT_EQ(index_for(1), 0u);
  EXPECT_EQ(index_for(2), 0u);
  EXPECT_EQ(index_for(4), 1u);
  EXPECT_EQ(index_for(8), 2u);
  EXPECT_EQ(index_for(12), 1u);
  EXPECT_EQ(index_for(16), 2u);
  EXPECT_EQ(index_for(8, true), 2u);
  EXPECT_EQ(index_for(4, true), 1u) << "no line for output takes id 4";
}

TEST(ConfigDescriptors, PreferTheLineForOutputForOutputOnly) {
  const Config config = built(user_text("CKPT=0 OUTPUT=1 TYPE=SINGLE\nCKPT=1 TYPE=RS\n"));
  EXPECT_EQ(config.descriptor_for(5)->index, 1u);
  EXPECT_EQ(config.descriptor_for(5, true)->index, 0u);
}

TEST(ConfigDescriptors, MustTakeEveryCheckpoint) {
  const auto config = Config::resolve(user_text("CKPT=3 INTERVAL=2"));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->descriptor_for(1), nullptr);
  EXPECT_NE(config->descriptor_for(2), nullptr);
  EXPECT_THAT(std::string(config->check_every_id_covered().message()),
              HasSubstr("user.conf:1: no enabled CKPT line has INTERVAL=1"));
}

TEST(ConfigDescriptors, UseTheFirstStoreIfTheCacheBaseIsNotSet) {
  const Config first = built(user_text("STORE=/ssd\nSTORE=/nvme\nCKPT=0"));
  EXPECT_EQ(first.redundancy()[0].store, "/ssd");
  EXPECT_EQ(first.stores().size(), 2u);
  const Config set = built(user_text("STORE=/ssd\nSCR_CACHE_BASE=/nvme\nCKPT=0"));
  EXPECT_EQ(set.redundancy()[0].store, "/nvme");
  EXPECT_EQ(set.stores().size(), 2u);
}

TEST(ConfigDescriptors, ReadTheCopyTypeFileAsTheCkptLines) {
  const Config config = built(user_text("SCR_COPY_TYPE=FILE\nCKPT=0\nCKPT=1 INTERVAL=2 TYPE=RS"));
  EXPECT_EQ(config.redundancy()[0].type, CopyType::kXor);
  EXPECT_EQ(config.redundancy()[1].type, CopyType::kRs);
}

TEST(ConfigDescriptors, ReadRoutesInOrder) {
  const Config config = built(user_text(read_text(TEST_DATA_DIR "/config/valid/routes.conf")));
  const std::vector<RouteRule>& routes = config.routes();
  ASSERT_EQ(routes.size(), 4u);
  EXPECT_EQ(routes[0].type, RouteRule::Type::kCheckpoint);
  EXPECT_EQ(routes[0].dataset, "restart_(\\d+)\\.h5$");
  EXPECT_EQ(routes[1].pattern, "my plots/*");
  EXPECT_EQ(routes[1].complete_files, 4u);
  EXPECT_EQ(routes[3].type, RouteRule::Type::kBypass);
}

TEST(ConfigDescriptors, ReadBackTheLinesThatTheyPrint) {
  for (const char* name : {"multilevel", "routes"}) {
    const Config config =
        built(user_text(read_text(TEST_DATA_DIR "/config/valid/" + std::string(name) + ".conf")));
    std::string text;
    const auto add = [&](const auto& list) {
      for (const auto& one : list) text += print_setting(to_setting(one)) + "\n";
    };
    const auto add_all = [&](const Config& from) {
      add(from.groups());
      add(from.stores());
      add(from.redundancy());
      add(from.routes());
    };
    add_all(config);
    const std::string once = std::exchange(text, "");
    add_all(built(user_text(once)));
    EXPECT_EQ(text, once);
  }
}

TEST(ConfigQuoting, ReadsBackAnyValue) {
  const std::string value = "a b\t'c' \"d\" \\e $f #g \\\\ \\$ ${h}";
  const Setting setting{.name = "X", .value = value, .fields = {{"Y", true, "'"}, {"Z", true, ""}}};
  const auto words = parse_line(print_setting(setting), Environment());
  ASSERT_TRUE(words.ok()) << words.status().to_string();
  ASSERT_EQ(words->size(), 3u);
  EXPECT_EQ((*words)[0].value, value);
  EXPECT_EQ((*words)[1].value, "'");
  EXPECT_EQ((*words)[2].value, "");
}

}  // namespace
}  // namespace scr::config
