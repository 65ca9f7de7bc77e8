// Layers: the checked settings of each source, strongest first. Used by Config only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/config_parser.hpp"
#include "core/base/config_sources.hpp"
#include "core/base/descriptors.hpp"
#include "core/base/parameters.hpp"

namespace scr::config {

// The settings of one source, checked.
struct Layer {
  Source source = Source::kDefault;
  std::vector<Setting> settings = {};

  const Setting* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
};

// Messages collected on the way.
struct Findings {
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};

// All sources, strongest first, without the settings that users may not make (these leave a
// warning). Settings with errors are dropped, so that what is left parses.
std::vector<Layer> read_layers(const ConfigSources& sources, Findings& findings);

}  // namespace scr::config
