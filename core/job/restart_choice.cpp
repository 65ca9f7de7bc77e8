#include "core/job/restart_choice.hpp"

#include <nlohmann/json.hpp>

#include "core/base/log.hpp"
#include "flush/index.hpp"

namespace scr::job {
namespace {

// The user's choice becomes the current one of `index`, which is a copy.
bool user_chose(const JobSettings& job, flush::Index& index, const CachedCheckpoint& cached,
                bool first_run) {
  const std::string wanted = first_run ? job.config().get_string("SCR_CURRENT") : "";
  if (!wanted.empty()) {
    if (const flush::IndexEntry* entry = index.find_name(wanted)) {
      index.set_current(std::string(entry->directory));
      return true;
    }
    log::warning("SCR_CURRENT names '{}', which is not in the index", wanted);
  }
  return cached.created > 0 &&
         flush::made_current_since(job.fs(), job.prefix(), index, cached.created);
}

bool is_newer(const flush::IndexEntry& entry, const CachedCheckpoint& cached) {
  return cached.created > 0 ? entry.dataset.created > cached.created : entry.id() > cached.id;
}

}  // namespace

CachedCheckpoint newest_checkpoint_of_list(std::string_view json) {
  CachedCheckpoint newest;
  const auto list = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return newest;
  for (const auto& one : list) {
    if (!one.is_object()) continue;
    const auto id = one.find("id");
    const auto name = one.find("name");
    const auto in_cache = one.find("in_cache");
    const bool sound = id != one.end() && id->is_number_integer() && name != one.end() &&
                       name->is_string() && in_cache != one.end() && in_cache->is_boolean();
    if (!sound || !in_cache->get<bool>() || id->get<int>() <= newest.id) continue;
    newest = {id->get<int>(), name->get<std::string>()};
    const auto created = one.find("created");
    if (created != one.end() && created->is_number_integer()) {
      newest.created = created->get<std::int64_t>();
    }
  }
  return newest;
}

Result<std::string> restart_name(const JobSettings& job, const CachedCheckpoint& cached,
                                 bool first_run) {
  if (!job.config().get_bool("SCR_FETCH")) return cached.name;
  SCR_ASSIGN_OR_RETURN(flush::Index index, flush::read_index(job.fs(), job.prefix()));
  const bool chosen = user_chose(job, index, cached, first_run);
  for (const flush::IndexEntry* entry : index.restart_candidates()) {
    if (chosen || is_newer(*entry, cached)) return entry->dataset.name;
  }
  return cached.name;
}

}  // namespace scr::job
