#include "core/runtime/restart_members.hpp"

#include <fmt/format.h>

#include "core/base/path.hpp"
#include "core/runtime/cache.hpp"

namespace scr {

namespace {

// Ok if the member's files are there, with their sizes.
Status check_member(FileSystem& fs, const Directory& directory,
                    const redundancy::MemberFiles& member, const redundancy::RedundancySet& set) {
  for (const FileMeta& meta : member.files) {
    SCR_RETURN_IF_ERROR(check_cached_file(fs, directory, meta));
  }
  if (set.scheme == redundancy::Scheme::kSingle) return {};
  if (member.redundancy.file.empty()) return not_found("its redundancy file is not listed");
  return check_cached_file(fs, directory, member.redundancy);
}

}  // namespace

Result<std::string> make_dataset_directory(Context& context, const StoredDescriptor& descriptor) {
  FileSystem& fs = context.fs();
  SCR_RETURN_IF_ERROR(fs.make_directories(descriptor.store));
  SCR_ASSIGN_OR_RETURN(
      const auto job_directory,
      prepare_private_directory(fs, descriptor.store, context.job().private_path()));
  SCR_RETURN_IF_ERROR(fs.make_directories(At(*job_directory, descriptor.directory), 0700));
  return job_directory->path() + "/" + descriptor.directory;
}

redundancy::HostedMember hosted_member(FileSystem& fs, const Directory& directory,
                                       const FilemapEntry* entry,
                                       const StoredDescriptor& descriptor,
                                       const redundancy::RedundancySet& set, int rank) {
  redundancy::HostedMember member;
  member.index = set.index_of(rank);
  member.directory = &directory;
  // All files of the rank are listed, as the filemap expected them.
  if (entry != nullptr && entry->expected_files == static_cast<int>(entry->files.size())) {
    member.content = member_files(*entry, descriptor, set, rank);
    const Status checked = check_member(fs, directory, member.content, set);
    member.present = checked.ok();
    if (checked.may_hide_sound_data()) member.problem = checked;
  }
  member.content.index = member.index;
  return member;
}

void list_rebuilt(FilemapEntry& entry, const redundancy::MemberFiles& rebuilt) {
  for (const FileMeta& meta : rebuilt.files) entry.put(meta);
  if (!rebuilt.redundancy.file.empty()) entry.put(rebuilt.redundancy);
  if (!rebuilt.flush.empty()) entry.flush = rebuilt.flush;
}

Status all_gone(const std::string& ranks) {
  return {StatusCode::kUnrecoverable,
          fmt::format("the files of rank {} are gone together with those of all members of their "
                      "redundancy sets; the nodes that had them are not in this run, or have lost "
                      "them",
                      ranks)};
}

}  // namespace scr
