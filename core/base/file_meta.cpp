#include "core/base/file_meta.hpp"

#include <limits>

#include "core/base/checksum.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr {

std::string_view file_type_name(FileType type) {
  switch (type) {
    case FileType::kFull:
      return "FULL";
    case FileType::kPartner:
      return "PARTNER";
    case FileType::kXor:
      return "XOR";
    case FileType::kReedSolomon:
      return "RS";
  }
  return "FULL";
}

Result<FileType> parse_file_type(std::string_view name) {
  for (FileType type :
       {FileType::kFull, FileType::kPartner, FileType::kXor, FileType::kReedSolomon}) {
    if (name == file_type_name(type)) return type;
  }
  return corrupt("unknown file type '" + text::escape(name) + "'");
}

Hash FileMeta::to_hash() const {
  Hash hash;
  hash.set_value("FILE", file);
  hash.set_value("TYPE", file_type_name(type));
  hash.set_value("COMPLETE", complete ? 1 : 0);
  hash.set_value("SIZE", size);
  if (crc) hash.set_value("CRC", crc32_to_text(*crc));
  if (mtime_ns) hash.set_value("MTIME", *mtime_ns);
  hash.set_value("RANKS", ranks);
  if (!original.empty()) hash.set_value("ORIG", original);
  if (!path.empty()) hash.set_value("PATH", path);
  if (!name.empty()) hash.set_value("NAME", name);
  if (!shared.empty()) hash.set_value("SHARED", shared);
  if (shared_size) hash.set_value("SHARED_SIZE", *shared_size);
  return hash;
}

Result<FileMeta> FileMeta::from_hash(const Hash& hash) {
  FileMeta meta;
  SCR_ASSIGN_OR_RETURN(std::string file, hash.require_value("FILE"));
  SCR_ASSIGN_OR_RETURN(meta.file, safe_relative_path(file));
  SCR_ASSIGN_OR_RETURN(std::string type, hash.require_value("TYPE"));
  SCR_ASSIGN_OR_RETURN(meta.type, parse_file_type(type));
  SCR_ASSIGN_OR_RETURN(std::int64_t complete, hash.require_int("COMPLETE"));
  meta.complete = complete == 1;
  SCR_ASSIGN_OR_RETURN(meta.size, hash.require_uint("SIZE"));
  SCR_ASSIGN_OR_RETURN(std::int64_t ranks, hash.require_int("RANKS"));
  if (ranks < 0 || ranks > std::numeric_limits<int>::max()) {
    return corrupt("key 'RANKS' has the impossible value " + std::to_string(ranks));
  }
  meta.ranks = static_cast<int>(ranks);
  if (auto crc = hash.value("CRC")) {
    SCR_ASSIGN_OR_RETURN(meta.crc, crc32_from_text(*crc));
  }
  if (hash.contains("MTIME")) {
    SCR_ASSIGN_OR_RETURN(meta.mtime_ns, hash.require_int("MTIME"));
  }
  meta.original = std::string(hash.value("ORIG").value_or(""));
  meta.path = std::string(hash.value("PATH").value_or(""));
  meta.name = std::string(hash.value("NAME").value_or(""));
  if (auto shared = hash.value("SHARED")) {
    SCR_ASSIGN_OR_RETURN(meta.shared, safe_relative_path(*shared));
    if (hash.contains("SHARED_SIZE")) {
      SCR_ASSIGN_OR_RETURN(meta.shared_size, hash.require_uint("SHARED_SIZE"));
    }
  }
  return meta;
}

}  // namespace scr
