#include "core/routing/given_files.hpp"

#include <algorithm>

#include "core/base/text.hpp"

namespace scr::routing {

// Files and directories of these names, wildcards too. Of a path it is the last part; those before
// it may be links.
CommandWords::CommandWords(std::string_view command) {
  constexpr std::string_view kBetweenWords = " \t\n'\"`;&|<>()$={},";
  while (!command.empty()) {
    std::string_view word = command.substr(0, command.find_first_of(kBetweenWords));
    command.remove_prefix(std::min(word.size() + 1, command.size()));
    while (word.ends_with('/')) word.remove_suffix(1);
    if (word.empty()) continue;
    const std::string last(word.substr(word.rfind('/') + 1));
    names_.push_back(last == "." || last == ".." ? "*" : last);
  }
}

bool CommandWords::may_mean(std::string_view relative) const {
  return std::ranges::any_of(text::split(relative, '/'), [&](std::string_view one) {
    const std::string part(one);
    return std::ranges::any_of(
        names_, [&](const std::string& name) { return text::glob_match(name, part); });
  });
}

}  // namespace scr::routing
