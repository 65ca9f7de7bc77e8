// FileMeta: what h5scr knows of one file of a dataset (SCR manual §5): docs/formats/filemap.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/hash.hpp"

namespace scr {

// What a file is: written by the application, or redundancy data of ours.
enum class FileType { kFull, kPartner, kXor, kReedSolomon };

std::string_view file_type_name(FileType type);  // FULL, PARTNER, XOR, RS
Result<FileType> parse_file_type(std::string_view name);

struct FileMeta {
  std::string file;  // path relative to the dataset directory, safe (core/base/path.hpp)
  FileType type = FileType::kFull;
  bool complete = false;  // the application (or the encoder) said that it is whole
  std::uint64_t size = 0;
  std::optional<std::uint32_t> crc;  // CRC32 of the content
  // When the application wrote it last: of two files with one name the newer is known by its time,
  // so a copy elsewhere and a rebuilt file get this one.
  std::optional<std::int64_t> mtime_ns;
  int ranks = 0;         // ranks of the run that wrote it
  std::string original;  // as the application named it; empty for redundancy data
  std::string path;      // absolute directory of the original; empty for redundancy data
  std::string name;      // last component of the original; empty for redundancy data
  // This is one process's log of the file of that name, which several have written together
  // (core/shared_file); empty otherwise.
  std::string shared;
  // How long that file is: known of the log of the first of those processes, whose rank lists the
  // file in the prefix directory.
  std::optional<std::uint64_t> shared_size;

  Hash to_hash() const;
  // Refuses paths that leave the dataset directory and numbers that are none.
  static Result<FileMeta> from_hash(const Hash& hash);
  bool operator==(const FileMeta&) const = default;
};

}  // namespace scr
