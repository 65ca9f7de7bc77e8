// The command scr_print_config: what it prints and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string output;
};

class PrintConfig : public testing::Test {
 protected:
  PrintConfig() {
    std::string pattern = (fs::temp_directory_path() / "print_config_test.XXXXXX").native();
    directory_ = mkdtemp(pattern.data());
  }
  ~PrintConfig() override { fs::remove_all(directory_); }

  void write_user_file(const std::string& text) const {
    std::ofstream(directory_ / ".scrconf") << text;
  }

  // Runs the command in an environment of its own; `errors` asks for standard error instead.
  Outcome run(const std::string& arguments, bool errors = false) const {
    const std::string command =
        "env -i " + variables_ + " " TEST_BIN_DIR "/scr_print_config --system-file '' --prefix " +
        directory_.native() + " " + arguments + (errors ? " 2>&1 >/dev/null" : " 2>/dev/null");
    Outcome outcome;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return outcome;
    std::array<char, 4096> buffer{};
    for (std::size_t n = 1; n > 0;) {
      n = fread(buffer.data(), 1, buffer.size(), pipe);
      outcome.output.append(buffer.data(), n);
    }
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }

  fs::path directory_;
  std::string variables_;
};

TEST_F(PrintConfig, PrintsEveryValueWithItsOrigin) {
  write_user_file("SCR_FLUSH=3\nSTORE=/ssd\n");
  variables_ = "SCR_DEBUG=0";
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, testing::ContainsRegex("SCR_FLUSH +3 +.*/\\.scrconf:1\n"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("SCR_DEBUG +0 +environment\n"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("SCR_ENABLE +1 +default\n"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("\nSTORE=/ssd GROUP=NODE .* # .*:2\n"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("\nCKPT=0 INTERVAL=1 .* # default\n"));
}

TEST_F(PrintConfig, PrintsOneValue) {
  EXPECT_EQ(run("SCR_CONTAINER_SIZE").output, "100GB\n");
  EXPECT_EQ(run("SCR_FLUSH --transparent").output, "1\n");
  EXPECT_EQ(run("SCR_COPY_TYPE --json").output, "\"XOR\"\n");
}

TEST_F(PrintConfig, PrintsJson) {
  write_user_file("SCR_FLUSH=3\nROUTE='*.h5' TYPE=OUTPUT\n");
  const Outcome outcome = run("--json");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("\"SCR_FLUSH\": {\n      \"value\": \"3\""));
  EXPECT_THAT(outcome.output, HasSubstr("\"source\": \"user file\""));
  EXPECT_THAT(outcome.output, HasSubstr("\"ROUTE\": \"*.h5\""));
}

TEST_F(PrintConfig, ListsAllErrorsAndEndsWith1) {
  write_user_file("SCR_FLUSH=x\nSCR_FLUSHH=1\n");
  EXPECT_EQ(run("").code, 1);
  EXPECT_EQ(run("").output, "");
  const Outcome outcome = run("", /*errors=*/true);
  EXPECT_THAT(outcome.output, HasSubstr("/.scrconf:1: SCR_FLUSH: 'x' is not a whole number"));
  EXPECT_THAT(outcome.output, HasSubstr("/.scrconf:2: unknown parameter 'SCR_FLUSHH'"));
}

TEST_F(PrintConfig, WarnsOnStandardError) {
  variables_ = "SCR_FLUSHH=1";
  EXPECT_EQ(run("").code, 0);
  EXPECT_THAT(run("", /*errors=*/true).output,
              HasSubstr("warning: environment: unknown parameter"));
}

TEST_F(PrintConfig, EndsWith1ForAnUnknownNameAndAMissingFile) {
  EXPECT_EQ(run("SCR_FLUSHH").code, 1);
  EXPECT_THAT(run("SCR_FLUSHH", true).output, HasSubstr("did you mean SCR_FLUSH"));
  variables_ = "SCR_CONF_FILE=/no/such/file";
  EXPECT_EQ(run("").code, 1);
  EXPECT_THAT(run("", true).output, HasSubstr("'/no/such/file'"));
}

TEST_F(PrintConfig, EndsWith2ForWrongUse) {
  EXPECT_EQ(run("--nope").code, 2);
  EXPECT_EQ(run("--docs --json").code, 2);
}

TEST_F(PrintConfig, ExplainsItsExitCodes) {
  const Outcome outcome = run("--help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("Exit codes: 0 success; 1 "));
}

}  // namespace
