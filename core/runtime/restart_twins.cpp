#include "core/runtime/restart_twins.hpp"

#include <fmt/format.h>

#include <set>

#include "redundancy/plan.hpp"
#include "redundancy/redundancy.hpp"
#include "redundancy/stored_descriptor.hpp"

namespace scr {

namespace {

using redundancy::RedundancySet;

// All files of the rank in the set are there, with their checksums.
Status check_member(FileSystem& fs, const FilemapEntry& entry, const StoredDescriptor& descriptor,
                    const RedundancySet& set, int rank) {
  if (entry.expected_files != static_cast<int>(entry.files.size())) {
    return not_found("not all of its files are listed");
  }
  const redundancy::MemberFiles member = member_files(entry, descriptor, set, rank);
  if (set.scheme != redundancy::Scheme::kSingle && member.redundancy.file.empty()) {
    return not_found("its redundancy file is not listed");
  }
  SCR_ASSIGN_OR_RETURN(const auto directory, fs.open_directory(entry.directory));
  for (const FileMeta& meta : member.files) {
    SCR_RETURN_IF_ERROR(check_cached_file(fs, *directory, meta));
  }
  return redundancy::verify_member(fs, *directory, member);
}

// The sets that this process knows, and the members that are sound here: <set>/SET/..., RANKS,
// SOUND/<rank>.
Hash describe_sets(Context& context, const Cache& cache, int dataset, std::int64_t created,
                   Status& unreached) {
  Hash sets;
  for (const int rank : cache.filemap().ranks(dataset)) {
    const FilemapEntry& entry = *cache.filemap().get(rank, dataset);
    if (entry.dataset.created != created) continue;
    const auto descriptor = StoredDescriptor::from_hash(entry.redundancy);
    if (!descriptor.ok()) continue;
    for (const RedundancySet& set : descriptor->sets) {
      Hash& known = sets.at(std::to_string(set.id));
      known.set("SET", set.to_hash());
      known.set_value("RANKS", entry.dataset.ranks);
      const Status sound = check_member(context.fs(), entry, *descriptor, set, rank);
      if (sound.ok()) known.at("SOUND").at(std::to_string(rank));
      if (unreached.ok() && sound.may_hide_sound_data()) unreached = sound;
    }
  }
  return sets;
}

// Takes the ranks whose files are whole or can be rebuilt out of `missing`.
Status judge_set(const Hash& known, std::set<int>& missing) {
  SCR_ASSIGN_OR_RETURN(const RedundancySet set, RedundancySet::from_hash(*known.get("SET")));
  std::vector<bool> lost;
  for (const auto& member : set.members) {
    const Hash* sound = known.get("SOUND");
    lost.push_back(sound == nullptr || sound->get(std::to_string(member.rank)) == nullptr);
  }
  if (!redundancy::is_bearable(set, lost)) return {};
  for (const auto& member : set.members) {
    if (!member.guest) missing.erase(member.rank);
  }
  return {};
}

// On rank 0, which knows what all have told.
Status judge(const Hash& sets) {
  std::set<int> missing;
  for (const auto& element : sets.elements()) {
    SCR_ASSIGN_OR_RETURN(const std::int64_t ranks, element.hash.require_int("RANKS"));
    for (int rank = 0; rank < ranks; ++rank) missing.insert(rank);
  }
  for (const auto& element : sets.elements()) {
    SCR_RETURN_IF_ERROR(judge_set(element.hash, missing));
  }
  if (!sets.empty() && missing.empty()) return {};
  return {StatusCode::kUnrecoverable,
          fmt::format("more of its files are lost or damaged than redundancy can rebuild, those of "
                      "{} rank(s), the first is {}",
                      missing.size(), missing.empty() ? 0 : *missing.begin())};
}

}  // namespace

Status check_restorable(Context& context, const Cache& cache, int dataset, std::int64_t created) {
  Communicator& world = context.world();
  Status unreached;
  Hash send;
  send.set("0", describe_sets(context, cache, dataset, created, unreached));
  Hash received;
  Status verdict = exchange_hashes(world, send, received);
  if (context.rank() == 0 && verdict.ok()) {
    Hash sets;
    for (const auto& process : received.elements()) sets.merge(process.hash);
    verdict = judge(sets);
  }
  verdict = agree(world, verdict, "looking for the files of a dataset", Report::kQuiet);
  if (verdict.ok()) return {};
  SCR_RETURN_IF_ERROR(agree(world, unreached, "reading the cache", Report::kQuiet));
  return verdict;
}

}  // namespace scr
