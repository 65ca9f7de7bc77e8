// What the commands share: how arguments are read and failures are told.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

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

// Tells a failure as the command `name`.
inline int fail(std::string_view name, const Status& status, int code = kFailure) {
  fmt::print(stderr, "{}: {}\n", name, status.message());
  return code;
}

}  // namespace scr::tools
