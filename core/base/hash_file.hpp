// Hash files: a hash on disk, with magic number, length and CRC32 (docs/formats/hash.md).
//
// Writing replaces the file atomically: a reader, and a program started after a crash at any
// instant, sees the old content or the new, never a mixture. Reading verifies everything before it
// returns any of it. For read-modify-write between processes use LockedHashFile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/filesystem.hpp"
#include "core/base/hash.hpp"

namespace scr {

inline constexpr std::uint32_t kHashFileMagic = 0x951fc3f5;
inline constexpr std::uint16_t kHashFileType = 1;
inline constexpr std::uint16_t kHashFileVersion = 1;
inline constexpr std::uint32_t kHashFileFlagCrc32 = 1;
inline constexpr std::size_t kHashFileHeaderSize = 20;

// kVolatile: for caches and control directories, which die with their node anyway.
// kDurable: for the prefix directory; synced before and after the rename.
enum class Durability { kVolatile, kDurable };

// The bytes of a hash file, and back. `name` is what messages call the file.
Result<std::vector<std::byte>> encode_hash_file(const Hash& hash);
Result<Hash> decode_hash_file(std::span<const std::byte> bytes, const std::string& name);
// As decode_hash_file for a hash file that is followed by other data (redundancy headers);
// `length` gets the number of bytes that belong to the hash file.
Result<Hash> decode_hash_file_prefix(std::span<const std::byte> bytes, const std::string& name,
                                     std::size_t& length);

// kNotFound if there is no such file, kCorrupt (with file and reason) if it is not a whole one.
Result<Hash> read_hash_file(FileSystem& fs, const At& at);
Status write_hash_file(FileSystem& fs, const At& at, const Hash& hash, Durability durability,
                       mode_t mode = 0666);

// A hash file held under a lock, for read-modify-write. The lock is on `<file>.lock`, which is
// never renamed or removed, so that all processes meet at the same one. Dropping the object
// unlocks.
class LockedHashFile {
 public:
  // Waits for the lock, then reads; a file that does not exist reads as an empty hash. With
  // `damage`, so does one that is damaged, and `damage` says what is wrong with it.
  static Result<LockedHashFile> open(FileSystem& fs, const At& at, LockMode mode,
                                     Status* damage = nullptr);

  Hash& hash() { return hash_; }
  // Replaces the file with hash(), under the lock. Only with LockMode::kExclusive.
  Status write(Durability durability);

 private:
  LockedHashFile(FileSystem& fs, At at, LockMode mode, std::unique_ptr<File> lock, Hash hash);
  FileSystem* fs_;
  At at_;
  LockMode mode_;
  std::unique_ptr<File> lock_;
  Hash hash_;
};

}  // namespace scr
