// The configuration in force: every parameter with its value and origin, and all descriptors.
//
//   ConfigSources sources = read_files(file_system(), Environment::current());   // rank 0
//   ... broadcast sources.to_hash() ...
//   Result<Config> config = Config::build(sources);                              // every rank
//   if (config->get_bool("SCR_FLUSH_ASYNC")) ...
//
// Programs that call SCR_Config before SCR_Init: Config::resolve, then call() for each, then
// check(). Of a parameter the strongest source counts (see Source). Of the lines of one kind of
// descriptor all come from the strongest source that has any; only SCR_Config calls add to each
// other.
//
// Reading is safe from any thread; call() is not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config_sources.hpp"
#include "core/base/config_value.hpp"
#include "core/base/descriptors.hpp"
#include "core/base/parameters.hpp"
#include "core/base/status.hpp"

namespace scr::config {

class Config {
 public:
  // resolve() and check(). With errors the Status has the first and how many more there are;
  // `errors`, if given, gets all of them.
  static Result<Config> build(ConfigSources sources, std::vector<std::string>* errors = nullptr);
  // The same without the checks of descriptors against each other, which SCR_Config calls may still
  // complete.
  static Result<Config> resolve(ConfigSources sources, std::vector<std::string>* errors = nullptr);
  // What must hold once all is set: the descriptors fit together and take every checkpoint.
  Status check(std::vector<std::string>* errors = nullptr) const;

  // SCR_Config: "SCR_X=value" or a descriptor line sets, "SCR_X=" and "CKPT=0 TYPE=" take back what
  // an earlier call set, "CKPT=" takes back all CKPT lines of calls; "SCR_X" and "CKPT=0 TYPE" ask
  // for the value in force. The answer is nothing for a value that is not set, and for calls that
  // set. On failure the configuration is as before.
  Result<std::optional<std::string>> call(std::string_view text);

  // --- parameters: the name must be one of the table and of that type; anything else is a bug of
  // the caller, which ends the program with a message -------------------------------------------
  bool get_bool(std::string_view name) const;
  std::int64_t get_int(std::string_view name) const;
  std::uint64_t get_uint(std::string_view name) const;   // whole numbers from 0
  std::uint64_t get_bytes(std::string_view name) const;  // sizes
  double get_double(std::string_view name) const;        // seconds and percentages
  // Canonical text of a parameter of any type; empty if it is not set.
  std::string get_string(std::string_view name) const;
  // A path made absolute from the working directory.
  std::string get_path(std::string_view name) const;
  const Origin& origin(std::string_view name) const;
  FlushType flush_type() const;

  // --- descriptors ----------------------------------------------------------------------------
  const std::vector<GroupDescriptor>& groups() const { return descriptors_.groups; }
  const std::vector<StoreDescriptor>& stores() const { return descriptors_.stores; }
  const std::vector<RedundancyDescriptor>& redundancy() const { return descriptors_.redundancy; }
  const std::vector<RouteRule>& routes() const { return descriptors_.routes; }
  const StoreDescriptor* find_store(std::string_view directory) const {
    return descriptors_.find_store(directory);
  }
  // The enabled descriptor whose INTERVAL is the largest that divides the id; nullptr if there is
  // none, which check() excludes. For output datasets those with OUTPUT=1 go first.
  const RedundancyDescriptor* descriptor_for(std::uint64_t id, bool output = false) const;
  Status check_every_id_covered() const;

  // What a user should know but is no error, one line each; the caller logs them once.
  const std::vector<std::string>& warnings() const { return warnings_; }
  const ConfigSources& sources() const { return sources_; }

 private:
  struct Entry {
    Value value;
    Origin origin;
  };

  Config() = default;
  const Entry& entry(std::string_view name, ValueType type) const;
  Result<std::optional<std::string>> query(const std::vector<Word>& words) const;

  ConfigSources sources_;
  std::map<std::string, Entry, std::less<>> entries_;
  DescriptorLines lines_;
  Descriptors descriptors_;
  std::vector<std::string> warnings_;
};

}  // namespace scr::config
