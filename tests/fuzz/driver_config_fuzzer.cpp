// Fuzzer: any text as the configuration string of the HDF5 driver (HDF5_DRIVER_CONFIG). The
// settings that it is split into are the same when they come line by line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/config.hpp"
#include "core/base/text.hpp"

namespace {

using scr::config::Config;
using scr::config::ConfigSources;
using scr::config::Environment;

ConfigSources with(std::vector<std::string> settings) {
  return {.environment = Environment(Environment::Values{{"HOME", "/home/u"}, {"PWD", "/w"}}),
          .calls = std::move(settings),
          .mode = scr::config::Mode::kTransparent};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto settings = scr::config::split_settings(text);
  for (const std::string& setting : settings) {
    if (setting.empty() || setting.find('\n') != std::string::npos) std::abort();
  }
  if (scr::config::split_settings(scr::text::join(settings, "\n")) != settings) std::abort();
  (void)Config::build(with(settings));
  return 0;
}
