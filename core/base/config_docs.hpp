// The text of docs/parameters.md, made from the tables of parameters and descriptor fields.
#pragma once

#include <string>

namespace scr::config {

std::string documentation();

}  // namespace scr::config
