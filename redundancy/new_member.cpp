#include "redundancy/new_member.hpp"

#include <fmt/format.h>

#include "core/base/hash_file.hpp"
#include "core/base/path.hpp"
#include "redundancy/member_io.hpp"

namespace scr::redundancy {

std::string temporary_name_start(const RedundancySet& set, int index) {
  return fmt::format(".rebuild.{}.{}.", set.id, index);
}

NewMember::NewMember(FileSystem& fs, HostedMember& member, RedundancyHeader header)
    : fs_(fs), member_(member), header_(std::move(header)) {}

NewMember::~NewMember() {
  for (std::size_t i = 0; i < created_; ++i) {
    (void)fs_.remove_if_exists(At(*member_.directory, temporary_name(i)));
  }
}

std::string NewMember::temporary_name(std::size_t file) const {
  return temporary_name_start(header_.set, header_.index) + std::to_string(file);
}

Status NewMember::create(LocalMember& local, RegisterFiles register_files, void* context) {
  SCR_ASSIGN_OR_RETURN(const auto bytes, encode_hash_file(header_.to_hash()));
  header_length_ = bytes.size();
  member_.content = header_.members.front();
  FileMeta& redundancy = member_.content.redundancy;
  redundancy.file = header_.set.file_name(header_.index);
  redundancy.type = redundancy_file_type(header_.set.scheme);
  redundancy.size = header_length_ + header_.payload_size();
  redundancy.ranks = header_.dataset.ranks;
  if (register_files != nullptr) SCR_RETURN_IF_ERROR(register_files(context, member_));
  for (const FileMeta& file : member_.content.files) {
    SCR_RETURN_IF_ERROR(local.files.create(temporary_name(created_++), 0, file.size));
  }
  return local.payload.create(temporary_name(created_++), header_length_, header_.payload_size());
}

Status NewMember::finish(LocalMember& local) {
  SCR_RETURN_IF_ERROR(local.status);
  for (std::size_t i = 0; i < member_.content.files.size(); ++i) {
    const FileMeta& file = member_.content.files[i];
    if (!local.files.checksum(i)) return internal_error("a file was not rebuilt to its end");
    SCR_RETURN_IF_ERROR(compare_checksum(file.file, local.files.checksum(i), file.crc)
                            .with_context("although all survivors are sound"));
  }
  const auto payload_crc = local.payload.checksum(0);
  if (!payload_crc) return internal_error("a redundancy file was not rebuilt to its end");
  header_.payload_crc = *payload_crc;
  SCR_RETURN_IF_ERROR(local.files.set_sizes());
  for (std::size_t i = 0; i < member_.content.files.size(); ++i) {
    const auto& time = member_.content.files[i].mtime_ns;
    if (time) SCR_RETURN_IF_ERROR(local.files.set_time(i, *time));
  }
  SCR_RETURN_IF_ERROR(local.files.close());
  SCR_RETURN_IF_ERROR(local.payload.set_sizes());
  return write_redundancy_header(header_, header_length_, local.payload,
                                 member_.content.redundancy);
}

Status NewMember::publish() {
  for (std::size_t i = 0; i < member_.content.files.size(); ++i) {
    SCR_RETURN_IF_ERROR(publish(member_.content.files[i].file, i));
  }
  return publish(member_.content.redundancy.file, member_.content.files.size());
}

Status NewMember::publish(const std::string& name, std::size_t file) {
  if (const std::string parent = parent_of(name); !parent.empty()) {
    SCR_RETURN_IF_ERROR(fs_.make_directories(At(*member_.directory, parent)));
  }
  return fs_.rename(At(*member_.directory, temporary_name(file)), At(*member_.directory, name));
}

}  // namespace scr::redundancy
