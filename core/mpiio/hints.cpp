#include "core/mpiio/hints.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <set>
#include <span>
#include <sstream>
#include <vector>

#include "core/base/filesystem.hpp"
#include "core/base/log.hpp"

namespace scr::mpiio {
namespace {

constexpr std::string_view kPrefix = "scr_";

constexpr auto kKnown = std::to_array<std::string_view>(
    {"scr_route", "scr_type", "scr_flush", "scr_order", "scr_copy_type", "scr_set_size"});

constexpr auto kTypes = std::to_array<std::string_view>({"CKPT", "OUTPUT", "BYPASS"});
constexpr auto kOrders = std::to_array<std::string_view>({"LAZY", "STRICT"});

// The words of a hint that has only some; empty for others.
std::span<const std::string_view> words_of(std::string_view key) {
  if (key == "scr_type") return kTypes;
  return key == "scr_order" ? std::span<const std::string_view>(kOrders)
                            : std::span<const std::string_view>();
}

// Once in a process: programs open many files with the same hints.
bool is_news(const std::string& what) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  return told.insert(what).second;
}

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <typename Names>
std::string list_of(const Names& names) {
  std::string list;
  for (const std::string_view name : names) {
    list += list.empty() ? "" : ", ";
    list += name;
  }
  return list;
}

// As they are compared: without case, and with one word each for yes and no.
std::string plain_value(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
  if (value == "TRUE") return "1";
  return value == "FALSE" ? "0" : value;
}

bool is_impossible(std::string_view key, const std::string& value) {
  const auto words = words_of(key);
  return !words.empty() && !is_among(words, plain_value(value));
}

void warn_if_unknown(const std::string& key, const std::string& value) {
  if (!is_among(kKnown, key)) {
    if (is_news(key)) {
      log::warning("unknown hint '{}' for MPI-IO is ignored; there are {}", key, list_of(kKnown));
    }
  } else if (is_impossible(key, value) && is_news(key + "=" + value)) {
    log::warning("hint '{}' for MPI-IO cannot be '{}' and is ignored; it is one of {}", key, value,
                 list_of(words_of(key)));
  }
}

Hints only_ours(const Hints& all) {
  Hints ours;
  for (const auto& [key, value] : all) {
    if (!key.starts_with(kPrefix)) continue;
    warn_if_unknown(key, value);
    ours.emplace(key, value);
  }
  return ours;
}

Hints all_of(MPI_Info info) {
  Hints found;
  int keys = 0;
  if (info == MPI_INFO_NULL || PMPI_Info_get_nkeys(info, &keys) != MPI_SUCCESS) return found;
  for (int i = 0; i < keys; ++i) {
    std::array<char, MPI_MAX_INFO_KEY + 1> key{};
    int length = 0;
    int is_set = 0;
    if (PMPI_Info_get_nthkey(info, i, key.data()) != MPI_SUCCESS) continue;
    PMPI_Info_get_valuelen(info, key.data(), &length, &is_set);
    if (is_set == 0) continue;
    std::vector<char> value(static_cast<std::size_t>(length) + 1);
    PMPI_Info_get(info, key.data(), length, value.data(), &is_set);
    if (is_set != 0) found[key.data()] = value.data();
  }
  return found;
}

Hints from_file() {
  const char* name = std::getenv("ROMIO_HINTS");
  if (name == nullptr || *name == '\0') return {};
  auto bytes = file_system().read_file(std::string(name));
  if (!bytes.ok()) return {};  // as ROMIO does
  return parse_hints({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
}

// Keys and values have no zero bytes.
std::string to_text(const Hints& hints) {
  std::string text;
  for (const auto& [key, value] : hints) (((text += key) += '\0') += value) += '\0';
  return text;
}

Hints from_text(const std::string& text) {
  Hints hints;
  for (std::size_t at = 0; at < text.size();) {
    const std::string key = text.c_str() + at;
    at += key.size() + 1;
    const std::string value = text.c_str() + at;
    at += value.size() + 1;
    hints.emplace(key, value);
  }
  return hints;
}

}  // namespace

Hints parse_hints(std::string_view text) {
  Hints hints;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    std::string value;
    std::string rest;
    if (!(words >> key >> value) || key.starts_with('#') || words >> rest) continue;
    if (line.find('\0') != std::string::npos) continue;  // no text
    hints.emplace(key, value);
  }
  return hints;
}

Hints hints_of(MPI_Info info) { return only_ours(all_of(info)); }

Hints collect_hints(Communicator& comm, MPI_Info info) {
  std::string text;
  if (comm.rank() == 0) {
    Hints hints = hints_of(info);
    hints.merge(only_ours(from_file()));
    text = to_text(hints);
  }
  return from_text(comm.broadcast_string(std::move(text), 0));
}

void warn_if_not_in_force(const Hints& wanted, const Hints& in_force) {
  for (const auto& [key, value] : wanted) {
    const auto now = in_force.find(key);
    if (now == in_force.end() || plain_value(value) == plain_value(now->second)) continue;
    if (is_impossible(key, value)) continue;  // was told
    if (!is_news(key + "=" + value + "/" + now->second)) continue;
    log::warning("hint '{}' for MPI-IO is '{}', but '{}' is in force", key, value, now->second);
  }
}

}  // namespace scr::mpiio
