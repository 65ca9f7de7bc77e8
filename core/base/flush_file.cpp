#include "core/base/flush_file.hpp"

#include <fmt/format.h>

#include <limits>

#include "core/base/text.hpp"

namespace scr {
namespace {

Result<int> dataset_key(std::string_view key) {
  const auto id = text::parse_int(key);
  if (!id || *id < 1 || *id > std::numeric_limits<int>::max() || std::to_string(*id) != key) {
    return corrupt(fmt::format("'{}' is not a dataset id", text::escape(key)));
  }
  return static_cast<int>(*id);
}

Hash state_to_hash(const FlushState& state) {
  Hash hash;
  if (!state.name.empty()) hash.set_value("NAME", state.name);
  if (state.is_checkpoint) hash.set_value("CKPT", 1);
  if (state.is_output) hash.set_value("OUTPUT", 1);
  Hash& location = hash.at("LOCATION");
  if (state.in_cache) location.at("CACHE");
  if (state.in_prefix) location.at("PFS");
  if (state.flushing) location.at("FLUSHING");
  return hash;
}

Result<bool> flag(const Hash& hash, std::string_view key) {
  if (!hash.contains(key)) return false;
  SCR_ASSIGN_OR_RETURN(const std::string value, hash.require_value(key));
  if (value == "0" || value == "1") return value == "1";
  return corrupt(
      fmt::format("key '{}' has the value '{}', which is not 0 or 1", key, text::escape(value)));
}

Status read_locations(const Hash& locations, FlushState& state) {
  for (const Hash::Element& element : locations.elements()) {
    if (element.key == "CACHE") {
      state.in_cache = true;
    } else if (element.key == "PFS") {
      state.in_prefix = true;
    } else if (element.key == "FLUSHING") {
      state.flushing = true;
    } else {
      return corrupt(fmt::format("unknown location '{}'", text::escape(element.key)));
    }
  }
  return {};
}

Result<FlushState> state_from_hash(const Hash& hash) {
  FlushState state;
  if (hash.contains("NAME")) {
    SCR_ASSIGN_OR_RETURN(state.name, hash.require_value("NAME"));
  }
  SCR_ASSIGN_OR_RETURN(state.is_checkpoint, flag(hash, "CKPT"));
  SCR_ASSIGN_OR_RETURN(state.is_output, flag(hash, "OUTPUT"));
  const Hash* locations = hash.get("LOCATION");
  if (locations == nullptr) return corrupt("key 'LOCATION' is missing");
  SCR_RETURN_IF_ERROR(read_locations(*locations, state));
  return state;
}

}  // namespace

const FlushState* FlushFile::get(int dataset) const {
  const auto found = datasets_.find(dataset);
  return found == datasets_.end() ? nullptr : &found->second;
}

FlushState* FlushFile::get(int dataset) {
  const auto found = datasets_.find(dataset);
  return found == datasets_.end() ? nullptr : &found->second;
}

std::vector<int> FlushFile::datasets() const {
  std::vector<int> ids;
  for (const auto& [id, state] : datasets_) ids.push_back(id);
  return ids;
}

bool FlushFile::need_flush(int dataset) const {
  const FlushState* state = get(dataset);
  return state != nullptr && state->in_cache && !state->in_prefix;
}

std::optional<int> FlushFile::latest_checkpoint() const {
  for (auto it = datasets_.rbegin(); it != datasets_.rend(); ++it) {
    if (it->second.is_checkpoint && it->second.in_cache) return it->first;
  }
  return std::nullopt;
}

std::vector<int> FlushFile::datasets_to_save() const {
  const std::optional<int> latest = latest_checkpoint();
  std::vector<int> ids;
  for (const auto& [id, state] : datasets_) {
    if (need_flush(id) && (state.is_output || latest == id)) ids.push_back(id);
  }
  return ids;
}

Hash FlushFile::to_hash() const {
  Hash hash;
  Hash& all = hash.at("DSET");
  for (const auto& [id, state] : datasets_) all.set(std::to_string(id), state_to_hash(state));
  return hash;
}

Result<FlushFile> FlushFile::from_hash(const Hash& hash) {
  FlushFile flush;
  const Hash* all = hash.get("DSET");
  if (all == nullptr) return corrupt("key 'DSET' is missing");
  for (const Hash::Element& element : all->elements()) {
    SCR_ASSIGN_OR_RETURN(const int id, dataset_key(element.key));
    auto state = state_from_hash(element.hash);
    if (!state.ok()) return state.status().with_context(fmt::format("dataset {}", id));
    flush.datasets_.emplace(id, *std::move(state));
  }
  return flush;
}

Result<FlushFile> read_flush_file(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, at));
  auto flush = FlushFile::from_hash(hash);
  if (flush.ok()) return flush;
  return flush.status().with_context(fmt::format("'{}' is not a valid flush file", at.display()));
}

Status write_flush_file(FileSystem& fs, const At& at, const FlushFile& flush) {
  return write_hash_file(fs, at, flush.to_hash(), Durability::kVolatile, 0600);
}

}  // namespace scr
