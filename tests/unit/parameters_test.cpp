// The table of parameters: complete, consistent with itself, and what docs/parameters.md is made
// of.
#include "core/base/parameters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "core/base/config_docs.hpp"
#include "core/base/config_value.hpp"
#include "core/base/descriptors.hpp"

namespace scr::config {
namespace {

using testing::HasSubstr;

// Written by hand from the design, so that a slip in the table shows.
const std::map<std::string, std::string> kExpectedDefaults = {
    {"SCR_ENABLE", "1"},
    {"SCR_DEBUG", "0"},
    {"SCR_CONF_FILE", ""},
    {"SCR_PREFIX", ""},
    {"SCR_CNTL_BASE", "/dev/shm"},
    {"SCR_CACHE_BASE", "/dev/shm"},
    {"SCR_CACHE_SIZE", "1"},
    {"SCR_CACHE_DELETE_FIRST", "0"},
    {"SCR_CACHE_BYPASS", "0"},
    {"SCR_CACHE_PURGE", "0"},
    {"SCR_COPY_TYPE", "XOR"},
    {"SCR_GROUP", "NODE"},
    {"SCR_SET_SIZE", "8"},
    {"SCR_SET_FAILURES", "2"},
    {"SCR_HOP_DISTANCE", "1"},
    {"SCR_CHECKPOINT_INTERVAL", "0"},
    {"SCR_CHECKPOINT_SECONDS", "0"},
    {"SCR_CHECKPOINT_OVERHEAD", "0"},
    {"SCR_DISTRIBUTE", "1"},
    {"SCR_FETCH", "1"},
    {"SCR_FETCH_BYPASS", "0"},
    {"SCR_FETCH_WIDTH", "256"},
    {"SCR_FLUSH", "10"},
    {"SCR_FLUSH_ASYNC", "0"},
    {"SCR_FLUSH_TYPE", ""},
    {"SCR_FLUSH_WIDTH", "256"},
    {"SCR_FLUSH_ASYNC_BW", "0"},
    {"SCR_FLUSH_ASYNC_PERCENT", "0"},
    {"SCR_FLUSH_ON_RESTART", "0"},
    {"SCR_GLOBAL_RESTART", "0"},
    {"SCR_USE_CONTAINERS", "0"},
    {"SCR_CONTAINER_SIZE", "100GB"},
    {"SCR_CONTAINER_PARITY", "0"},
    {"SCR_CRC_ON_COPY", "1"},
    {"SCR_CRC_ON_FLUSH", "1"},
    {"SCR_CRC_ON_DELETE", "0"},
    {"SCR_MARKERS", "close"},
    {"SCR_COLLECTIVE_TIMEOUT", "0"},
    {"SCR_COLLECTIVE_WARNING", "60"},
    {"SCR_PREFIX_SIZE", "0"},
    {"SCR_PREFIX_PURGE", "0"},
    {"SCR_CURRENT", ""},
    {"SCR_DROP_AFTER_CURRENT", "0"},
    {"SCR_HALT_EXIT", "0"},
    {"SCR_HALT_SECONDS", "0"},
    {"SCR_RUNS", "1"},
    {"SCR_REMOTE_SHELL", ""},
    {"SCR_MIN_NODES", "0"},
    {"SCR_NODELIST", ""},
    {"SCR_EXCLUDE_NODES", ""},
    {"SCR_LOG_ENABLE", "0"},
    {"SCR_LOG_TXT_ENABLE", "1"},
    {"SCR_LOG_SYSLOG_ENABLE", "1"},
    {"SCR_LOG_JSON_ENABLE", "1"},
    {"SCR_MPI_BUF_SIZE", "1MB"},
    {"SCR_FILE_BUF_SIZE", "1MB"},
    {"SCR_WATCHDOG_TIMEOUT", "0"},
    {"SCR_WATCHDOG_TIMEOUT_PFS", "0"},
    {"SCR_JOB_ID", ""},
    {"SCR_JOB_NAME", ""},
    {"SCR_USER_NAME", ""},
    {"SCR_CLUSTER_NAME", ""},
    {"SCR_END_TIME", "0"},
    {"SCR_VFD_TRACE", ""},
    {"SCR_SERVICE_INTERFACE", ""},
};

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 1; n > 0;) {
    n = fread(buffer.data(), 1, buffer.size(), pipe);
    output.append(buffer.data(), n);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

// Some values of each type that are not the default.
std::vector<std::string> samples(const ValueSpec& spec) {
  switch (spec.type) {
    case ValueType::kBool:
      return {"0", "1"};
    case ValueType::kInt:
    case ValueType::kUint:
      return {std::to_string(spec.min), std::to_string(spec.max), "7"};
    case ValueType::kBytes:
      return {"64KB", "1025"};
    case ValueType::kSeconds:
      return {"0.25", "3600"};
    case ValueType::kPercent:
      return {"12.5", "100"};
    case ValueType::kWord:
      return {spec.words.begin(), spec.words.end()};
    case ValueType::kPath:
      return {"/some/where", "/"};
    default:
      return {"some_text"};
  }
}

TEST(Parameters, AreThoseOfTheDesignWithTheirDefaults) {
  std::map<std::string, std::string> defaults;
  for (const Parameter& parameter : parameters()) {
    defaults.emplace(parameter.name, parameter.default_text);
  }
  EXPECT_EQ(defaults, kExpectedDefaults);
  EXPECT_EQ(defaults.size(), parameters().size()) << "a name stands in the table twice";
}

TEST(Parameters, AreFoundByName) {
  for (const Parameter& parameter : parameters()) {
    EXPECT_EQ(find_parameter(parameter.name), &parameter);
  }
  EXPECT_EQ(find_parameter("SCR_NOPE"), nullptr);
  EXPECT_EQ(find_parameter(""), nullptr);
}

TEST(Parameters, HaveDefaultsThatParseAndPrintAsTheyAreWritten) {
  for (const Parameter& parameter : parameters()) {
    for (const std::string_view text : {parameter.default_text, parameter.transparent_default}) {
      if (text.empty()) continue;
      const auto value = parse_value(parameter.spec, text);
      ASSERT_TRUE(value.ok()) << parameter.name << ": " << value.status().to_string();
      EXPECT_EQ(print_value(parameter.spec, *value), text) << parameter.name;
    }
  }
}

TEST(Parameters, ReadBackWhatTheyPrint) {
  for (const Parameter& parameter : parameters()) {
    for (const std::string& text : samples(parameter.spec)) {
      const auto value = parse_value(parameter.spec, text);
      ASSERT_TRUE(value.ok()) << parameter.name << ": " << value.status().to_string();
      const auto again = parse_value(parameter.spec, print_value(parameter.spec, *value));
      ASSERT_TRUE(again.ok()) << parameter.name;
      EXPECT_EQ(*again, *value) << parameter.name;
    }
  }
}

TEST(Parameters, AreDescribedInOneSentence) {
  for (const Parameter& parameter : parameters()) {
    EXPECT_GT(parameter.description.size(), 10u) << parameter.name;
    EXPECT_TRUE(parameter.description.ends_with('.')) << parameter.name;
    EXPECT_EQ(parameter.description.find('|'), std::string_view::npos) << parameter.name;
  }
}

TEST(Parameters, HaveOtherDefaultsInTransparentModeForFlushOnly) {
  std::map<std::string_view, std::string_view> differing;
  for (const Parameter& parameter : parameters()) {
    if (parameter.transparent_default.empty()) continue;
    differing[parameter.name] = parameter.transparent_default;
  }
  EXPECT_THAT(differing, testing::ElementsAre(testing::Pair("SCR_FLUSH", "1"),
                                              testing::Pair("SCR_FLUSH_ASYNC", "1")));
}

TEST(Parameters, LetTheSystemFileFixTheBasesOnly) {
  std::set<std::string_view> fixed;
  for (const Parameter& parameter : parameters()) {
    if (parameter.set_by == SetBy::kSystemFirst) fixed.insert(parameter.name);
  }
  EXPECT_THAT(fixed, testing::ElementsAre("SCR_CACHE_BASE", "SCR_CNTL_BASE"));
}

TEST(Parameters, KnowTheTestVariable) {
  EXPECT_TRUE(is_other_known_variable("SCR_FAULT"));
  EXPECT_FALSE(is_other_known_variable("SCR_FLUSH"));
}

TEST(Parameters, SuggestNearNames) {
  EXPECT_THAT(suggest_names("SCR_FLUSHH", parameter_names()), HasSubstr("did you mean SCR_FLUSH"));
  EXPECT_EQ(suggest_names("QQQQQQQQ", parameter_names()), "");
  EXPECT_EQ(suggest_names(std::string(100'000, 'S'), parameter_names()), "");
}

TEST(DescriptorTables, HaveDefaultsThatParseOrNameAParameterOfTheSameType) {
  for (const DescriptorKind& kind : descriptor_kinds()) {
    for (const Field& field : kind.fields) {
      const Parameter* parameter = find_parameter(field.default_text);
      if (field.default_text.starts_with("SCR_")) {
        ASSERT_NE(parameter, nullptr) << field.name;
        EXPECT_EQ(parameter->spec.type, field.spec.type) << field.name;
      } else {
        EXPECT_TRUE(parse_value(field.spec, field.default_text).ok()) << field.name;
      }
    }
  }
}

TEST(ParameterDocumentation, HasALineForEveryParameterAndField) {
  const std::string text = documentation();
  for (const Parameter& parameter : parameters()) {
    EXPECT_THAT(text, HasSubstr("\n| `" + std::string(parameter.name) + "` | "));
  }
  for (const DescriptorKind& kind : descriptor_kinds()) {
    EXPECT_THAT(text, HasSubstr("\n### " + std::string(kind.name) + "\n"));
    for (const Field& field : kind.fields) {
      EXPECT_THAT(text, HasSubstr("\n| `" + std::string(field.name) + "` | "));
    }
  }
}

TEST(ParameterDocumentation, IsWhatTheTablesSay) {
  EXPECT_EQ(read_text(TEST_DATA_DIR "/../../../docs/parameters.md"), documentation())
      << "run: scr_print_config --docs > docs/parameters.md";
}

TEST(ParameterDocumentation, IsPrintedByTheCommand) {
  EXPECT_EQ(output_of(TEST_BIN_DIR "/scr_print_config --docs"), documentation());
}

}  // namespace
}  // namespace scr::config
