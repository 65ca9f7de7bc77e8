// Fuzzer: any text as user file, system file and SCR_Config call. Nothing may crash, and what is
// accepted must print lines that are accepted again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "core/base/config.hpp"

namespace {

using scr::config::Config;
using scr::config::ConfigSources;
using scr::config::Environment;
using scr::config::SourceFile;

template <typename List>
void add_lines(const List& list, std::string& text) {
  for (const auto& one : list) text += print_setting(to_setting(one)) + "\n";
}

void check_lines_are_read_back(const Config& config, const ConfigSources& sources) {
  std::string text;
  add_lines(config.groups(), text);
  add_lines(config.stores(), text);
  add_lines(config.redundancy(), text);
  add_lines(config.routes(), text);
  ConfigSources again{.environment = sources.environment, .user_file = SourceFile{"again", text}};
  if (!Config::build(again).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ConfigSources sources{.environment = Environment(Environment::Values{
                            {"HOME", "/home/u"}, {"PWD", "/w"}, {"E", "a b\n$"}}),
                        .user_file = SourceFile{"user", text}};
  if (const auto config = Config::build(sources); config.ok()) {
    check_lines_are_read_back(*config, sources);
    for (std::uint64_t id = 1; id < 20; ++id) {
      if (config->descriptor_for(id) == nullptr) std::abort();
    }
  }
  sources.system_file = std::exchange(sources.user_file, std::nullopt);
  sources.environment.set("SCR_JOB_NAME", text.substr(0, text.find('\0')));
  (void)Config::build(sources);
  auto config =
      Config::resolve({.environment = Environment(Environment::Values{{"PWD", "/w"}})}).value();
  (void)config.call(text);
  (void)config.check();
  return 0;
}
