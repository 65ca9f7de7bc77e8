// What the commands share: how arguments are read and failures are told.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>

#include "core/base/filesystem.hpp"
#include "core/base/status.hpp"

namespace scr::tools {

// Of every command; some have more.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;

// Reads the arguments. If there is nothing more to do (help, wrong arguments), the exit code.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kUsage;
  }
  return std::nullopt;
}

// Validators of numbers. CLI11's own let NaN through, and print the largest number there is with
// all its 309 digits. `text` follows "is not a number", `description` goes to --help.
inline CLI::Validator number_that(const std::function<bool(double)>& holds, const std::string& text,
                                  const std::string& description) {
  const auto check = [=](const std::string& word) -> std::string {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(word, value) && std::isfinite(value);
    return is_number && holds(value) ? "" : fmt::format("'{}' is not a number {}", word, text);
  };
  return {check, description};
}
inline CLI::Validator positive_number() {
  return number_that([](double value) { return value > 0; }, "above 0", "POSITIVE");
}
inline CLI::Validator number_not_negative() {
  return number_that([](double value) { return value >= 0; }, "of 0 or more", "NONNEGATIVE");
}
inline CLI::Validator number_between(double least, double most) {
  return number_that([=](double value) { return value >= least && value <= most; },
                     fmt::format("from {:g} to {:g}", least, most),
                     fmt::format("FLOAT in [{:g} - {:g}]", least, most));
}

// Whether a directory that the user has named is there, and is one.
inline Status check_directory(FileSystem& fs, const std::string& path) {
  SCR_ASSIGN_OR_RETURN(const FileInfo found, fs.info(path, /*follow=*/true));
  if (found.type == FileInfo::Type::kDirectory) return {};
  return errno_status(ENOTDIR, "use", path);
}

// Tells a failure as the command `name`.
inline int fail(std::string_view name, const Status& status, int code = kFailure) {
  fmt::print(stderr, "{}: {}\n", name, status.message());
  return code;
}

// The exit code of a failure that may be one of the arguments; those of the system have an errno.
inline int exit_code(const Status& status) {
  const bool usage = status.code() == StatusCode::kInvalidArgument && status.errno_value() == 0;
  return usage ? kUsage : kFailure;
}

}  // namespace scr::tools
