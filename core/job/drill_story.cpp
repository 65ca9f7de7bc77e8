#include "core/job/drill_story.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/text.hpp"

namespace scr::job {
namespace {

using nlohmann::json;

std::string text_of(const json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_true(const json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace

std::string drill_story(std::string_view log) {
  bool lost = false;
  std::string story;
  for (std::string_view line : text::split(log, '\n')) {
    const json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) continue;
    const std::string what = text_of(event, "event");
    if (what == "node failure" && text_of(event, "note") == "drill") {
      lost = true;
      story.clear();
    }
    const bool told = what == "rebuild" || what == "fetch";
    if (!lost || !told || text_of(event, "phase") != "end") continue;
    story += fmt::format("{}{} {}: {}", story.empty() ? "" : "; ", what,
                         is_true(event, "ok") ? "succeeded" : "FAILED", text_of(event, "note"));
  }
  return story;
}

}  // namespace scr::job
