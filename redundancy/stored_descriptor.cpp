#include "redundancy/stored_descriptor.hpp"

#include "core/base/path.hpp"

namespace scr {

Hash StoredDescriptor::to_hash() const {
  Hash hash;
  hash.set_value("INDEX", index);
  hash.set_value("BASE", store);
  hash.set_value("DIRECTORY", directory);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    hash.at("SET").set(std::to_string(i), sets[i].to_hash());
  }
  return hash;
}

Result<StoredDescriptor> StoredDescriptor::from_hash(const Hash& hash) {
  StoredDescriptor descriptor;
  SCR_ASSIGN_OR_RETURN(descriptor.index, hash.require_uint("INDEX"));
  SCR_ASSIGN_OR_RETURN(descriptor.store, hash.require_value("BASE"));
  SCR_ASSIGN_OR_RETURN(std::string directory, hash.require_value("DIRECTORY"));
  SCR_ASSIGN_OR_RETURN(descriptor.directory, safe_relative_path(directory));
  const Hash* sets = hash.get("SET");
  if (sets == nullptr || sets->empty()) return corrupt("redundancy descriptor without a set");
  for (std::size_t i = 0; i < sets->size(); ++i) {
    const Hash* set_hash = sets->get(std::to_string(i));
    if (set_hash == nullptr) return corrupt("redundancy descriptor with a gap in its list of sets");
    SCR_ASSIGN_OR_RETURN(auto set, redundancy::RedundancySet::from_hash(*set_hash));
    descriptor.sets.push_back(std::move(set));
  }
  return descriptor;
}

redundancy::MemberFiles member_files(const FilemapEntry& entry, const StoredDescriptor& descriptor,
                                     const redundancy::RedundancySet& set, int rank) {
  redundancy::MemberFiles member;
  member.index = set.index_of(rank);
  const bool own = set.id == descriptor.sets.front().id;
  const std::string redundancy_file = set.file_name(member.index);
  for (const FileMeta& meta : entry.files) {
    if (meta.type == FileType::kFull && own) member.files.push_back(meta);
    if (meta.type != FileType::kFull && meta.file == redundancy_file) member.redundancy = meta;
  }
  if (own) member.flush = entry.flush;
  return member;
}

}  // namespace scr
