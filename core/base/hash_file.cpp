#include "core/base/hash_file.hpp"

#include <fmt/format.h>

#include "core/base/byte_order.hpp"
#include "core/base/checksum.hpp"

namespace scr {

namespace {

constexpr std::size_t kCrcSize = sizeof(std::uint32_t);

struct Header {
  std::uint32_t magic;
  std::uint16_t type;
  std::uint16_t version;
  std::uint64_t size;
  std::uint32_t flags;
};

Header read_header(std::span<const std::byte> bytes) {
  return {read_big_endian<std::uint32_t>(bytes), read_big_endian<std::uint16_t>(bytes.subspan(4)),
          read_big_endian<std::uint16_t>(bytes.subspan(6)),
          read_big_endian<std::uint64_t>(bytes.subspan(8)),
          read_big_endian<std::uint32_t>(bytes.subspan(16))};
}

Status refuse(const std::string& name, const std::string& reason) {
  return corrupt("'" + name + "' is not a valid hash file: " + reason);
}

// Checks all fields but the CRC against the bytes that are there.
Status check_header(const Header& header, std::size_t available, const std::string& name) {
  if (header.magic != kHashFileMagic) {
    return refuse(
        name, fmt::format("it starts with 0x{:08x}, not 0x{:08x}", header.magic, kHashFileMagic));
  }
  if (header.type != kHashFileType)
    return refuse(name, fmt::format("unknown type {}", header.type));
  if (header.version != kHashFileVersion) {
    return refuse(
        name, fmt::format("version {} (this program knows {})", header.version, kHashFileVersion));
  }
  if ((header.flags & ~kHashFileFlagCrc32) != 0) {
    return refuse(name, fmt::format("unknown flags 0x{:x}", header.flags));
  }
  // We write a CRC always; a cleared bit means that the file cannot be checked, so it is not used.
  if ((header.flags & kHashFileFlagCrc32) == 0) return refuse(name, "it carries no CRC32");
  if (header.size < kHashFileHeaderSize + sizeof(std::uint32_t) + kCrcSize) {
    return refuse(name, fmt::format("impossible size {} in its header", header.size));
  }
  if (header.size > available) {
    return refuse(name, fmt::format("it is cut: {} bytes are there, its header says {}", available,
                                    header.size));
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> encode_hash_file(const Hash& hash) {
  std::vector<std::byte> bytes;
  const std::uint64_t size = kHashFileHeaderSize + hash.pack_size() + kCrcSize;
  bytes.reserve(size);
  append_big_endian(bytes, kHashFileMagic);
  append_big_endian(bytes, kHashFileType);
  append_big_endian(bytes, kHashFileVersion);
  append_big_endian(bytes, size);
  append_big_endian(bytes, kHashFileFlagCrc32);
  SCR_RETURN_IF_ERROR(hash.pack_to(bytes));
  append_big_endian(bytes, crc32(bytes));
  return bytes;
}

Result<Hash> decode_hash_file_prefix(std::span<const std::byte> bytes, const std::string& name,
                                     std::size_t& length) {
  if (bytes.size() < kHashFileHeaderSize) {
    return refuse(name, fmt::format("{} bytes are too few for a header", bytes.size()));
  }
  const Header header = read_header(bytes);
  SCR_RETURN_IF_ERROR(check_header(header, bytes.size(), name));
  length = static_cast<std::size_t>(header.size);
  const auto checked = bytes.first(length - kCrcSize);
  const auto stored = read_big_endian<std::uint32_t>(bytes.subspan(length - kCrcSize));
  const std::uint32_t computed = crc32(checked);
  if (stored != computed) {
    return refuse(name, fmt::format("its CRC32 is 0x{:08x}, but its content gives 0x{:08x}", stored,
                                    computed));
  }
  auto hash = Hash::unpack(checked.subspan(kHashFileHeaderSize));
  if (!hash.ok()) return hash.status().with_context("'" + name + "' is not a valid hash file");
  return hash;
}

Result<Hash> decode_hash_file(std::span<const std::byte> bytes, const std::string& name) {
  std::size_t length = 0;
  SCR_ASSIGN_OR_RETURN(Hash hash, decode_hash_file_prefix(bytes, name, length));
  if (length != bytes.size()) {
    return refuse(name, fmt::format("{} bytes follow its end", bytes.size() - length));
  }
  return hash;
}

Result<Hash> read_hash_file(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, fs.read_file(at));
  return decode_hash_file(bytes, at.display());
}

Status write_hash_file(FileSystem& fs, const At& at, const Hash& hash, Durability durability,
                       mode_t mode) {
  auto bytes = encode_hash_file(hash);
  if (!bytes.ok()) return bytes.status().with_context("cannot write '" + at.display() + "'");
  return fs.write_file_atomically(at, *bytes, durability == Durability::kDurable, mode);
}

LockedHashFile::LockedHashFile(FileSystem& fs, At at, LockMode mode, std::unique_ptr<File> lock,
                               Hash hash)
    : fs_(&fs), at_(std::move(at)), mode_(mode), lock_(std::move(lock)), hash_(std::move(hash)) {}

Result<LockedHashFile> LockedHashFile::open(FileSystem& fs, const At& at, LockMode mode,
                                            Status* damage) {
  At lock_at = at;
  lock_at.path += ".lock";
  OpenOptions options = OpenOptions::read_write();
  options.create = true;
  SCR_ASSIGN_OR_RETURN(std::unique_ptr<File> lock, fs.open(lock_at, options));
  // Without locks the file is still replaced as a whole; who must not lose a change of another
  // process compares what is there (the index: its generation).
  Status locked = lock->lock(mode, /*wait=*/true);
  if (!locked.ok() && !locks_are_missing(locked)) return locked;
  auto hash = read_hash_file(fs, at);
  if (damage != nullptr && hash.status().code() == StatusCode::kCorrupt) {
    *damage = hash.status();
  } else if (!hash.ok() && hash.status().code() != StatusCode::kNotFound) {
    return hash.status();
  }
  return LockedHashFile(fs, at, mode, std::move(lock), hash.ok() ? std::move(*hash) : Hash());
}

Status LockedHashFile::write(Durability durability) {
  if (mode_ != LockMode::kExclusive) {
    return failed_precondition("cannot write '" + at_.display() +
                               "': it is locked for reading only");
  }
  return write_hash_file(*fs_, at_, hash_, durability);
}

}  // namespace scr
