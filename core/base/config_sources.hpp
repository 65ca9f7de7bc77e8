// Where configuration comes from: environment, user file, SCR_Config calls, system file.
//
// One process (rank 0) calls read_files and broadcasts ConfigSources::to_hash(); every process then
// builds the same Config from it, whatever its own environment says. Not thread-safe to change;
// safe to read from any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"
#include "core/base/hash.hpp"
#include "core/base/status.hpp"

namespace scr::config {

// In order of precedence, strongest first.
enum class Source { kEnvironment, kUserFile, kCall, kSystemFile, kDefault };

// Word for tables: "environment", "user file", "SCR_Config", "system file", "default".
std::string_view source_name(Source source);

// The place that set a value.
struct Origin {
  Source source = Source::kDefault;
  std::string file = {};  // of the two kinds of files
  int line = 0;           // in the file; for SCR_Config the number of the call, from 1

  // "environment", "<file>:<line>", "SCR_Config call 2", "default".
  std::string to_string() const;
};

// A copy of environment variables.
class Environment {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  Environment() = default;
  explicit Environment(Values values) : values_(std::move(values)) {}
  // That of this process, now.
  static Environment current();

  std::optional<std::string> get(std::string_view name) const;
  void set(std::string_view name, std::string_view value);
  const Values& values() const { return values_; }
  // $PWD if it is absolute, else what the operating system says.
  std::string working_directory() const;

 private:
  Values values_;
};

struct SourceFile {
  std::string path;
  std::string text;
};

// Which defaults hold: programs that call SCR_*, or programs that do not know of h5scr.
enum class Mode { kNative, kTransparent };

struct ConfigSources {
  Environment environment = {};
  std::optional<SourceFile> user_file = {};
  std::optional<SourceFile> system_file = {};
  std::vector<std::string> calls = {};  // arguments of SCR_Config that set something, in order
  Mode mode = Mode::kNative;

  // Of the environment only what a configuration can depend on: SCR_*, PWD and the variables that
  // the files name.
  Hash to_hash() const;
  // `local` fills in other variables, for SCR_Config calls to come; its SCR_* variables are
  // dropped.
  static Result<ConfigSources> from_hash(const Hash& hash, const Environment& local);
};

struct ReadOptions {
  // The path chosen when h5scr was built; empty: no system file.
  std::string system_file = default_system_file();
  // Prefix to search for `.scrconf` if the environment does not set SCR_PREFIX.
  std::optional<std::string> prefix = {};

  static std::string default_system_file();
};

// Reads the system file, if there is one, and the user file: the one that SCR_CONF_FILE in the
// environment names (it must exist), else `.scrconf` in the prefix, if there is one. Does not
// parse.
Result<ConfigSources> read_files(FileSystem& files, Environment environment,
                                 const ReadOptions& options = {});

// The settings of one text, with ';' or line ends between them, as arguments of SCR_Config: the
// configuration string of the HDF5 driver. A ';' in quotes belongs to the value.
std::vector<std::string> split_settings(std::string_view text);

}  // namespace scr::config
