#include "redundancy/member_io.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/checksum.hpp"
#include "core/base/hash_file.hpp"
#include "redundancy/pass.hpp"

namespace scr::redundancy {
Status open_member_files(const MemberFiles& member, LogicalFile& files) {
  for (const FileMeta& file : member.files) {
    SCR_RETURN_IF_ERROR(files.append(file.file, 0, file.size));
  }
  return {};
}

Status read_through(LogicalFile& files, std::size_t piece_size) {
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(piece_size, files.size())));
  for (std::uint64_t offset = 0; offset < files.size(); offset += buffer.size()) {
    const auto count = std::min<std::uint64_t>(buffer.size(), files.size() - offset);
    SCR_RETURN_IF_ERROR(
        files.read(offset, std::span(buffer).first(static_cast<std::size_t>(count))));
  }
  return {};
}

Status write_redundancy_header(const RedundancyHeader& header, std::size_t length,
                               LogicalFile& payload, FileMeta& meta) {
  SCR_ASSIGN_OR_RETURN(const auto bytes, encode_hash_file(header.to_hash()));
  if (bytes.size() != length) return internal_error("a redundancy header changed its length");
  SCR_RETURN_IF_ERROR(payload.write_before_base(0, bytes));
  SCR_RETURN_IF_ERROR(payload.close());
  meta = FileMeta{};
  meta.file = header.set.file_name(header.index);
  meta.type = redundancy_file_type(header.set.scheme);
  meta.complete = true;
  meta.size = length + header.payload_size();
  meta.crc = crc32_combine(crc32(bytes), header.payload_crc, header.payload_size());
  meta.ranks = header.dataset.ranks;
  return {};
}

Status compare_checksum(const std::string& file, std::optional<std::uint32_t> passed,
                        std::optional<std::uint32_t> recorded) {
  if (!passed || !recorded || *passed == *recorded) return {};
  return corrupt(fmt::format("'{}' is damaged: its checksum is {}, not {}", file,
                             crc32_to_text(*passed), crc32_to_text(*recorded)));
}

Status compare_checksums(const MemberFiles& member, const LogicalFile& files) {
  for (std::size_t i = 0; i < member.files.size(); ++i) {
    const FileMeta& file = member.files[i];
    SCR_RETURN_IF_ERROR(compare_checksum(file.file, files.checksum(i), file.crc));
  }
  return {};
}

Status verify_member(FileSystem& fs, const Directory& directory, const MemberFiles& member) {
  MemberFiles all = member;
  if (!member.redundancy.file.empty()) all.files.push_back(member.redundancy);
  LogicalFile files(fs, directory);
  SCR_RETURN_IF_ERROR(open_member_files(all, files));
  SCR_RETURN_IF_ERROR(read_through(files, default_piece_size(1)));
  return compare_checksums(all, files);
}

}  // namespace scr::redundancy
