#include "core/service/exports.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/hash_file.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr::service {
namespace {

constexpr std::string_view kPrefix = "export_";
constexpr std::string_view kSuffix = ".scrinfo";
constexpr std::string_view kCacheKey = "CACHE";
constexpr std::string_view kFileKey = "FILE";
constexpr std::uint64_t kLargestExport = 16384;

constexpr unsigned kRankBits = 24;
constexpr unsigned kIndexBits = 12;
constexpr unsigned kDatasetBits = 64 - kRankBits - kIndexBits;

std::string export_name(std::uint64_t id) {
  return fmt::format("{}{:016x}{}", kPrefix, id, kSuffix);
}

Status refused(const std::string& path, std::string_view why) {
  return {StatusCode::kPermissionDenied,
          fmt::format("'{}' is refused: {}", text::escape(path), why)};
}

// Before opening: a pipe would hold up the server.
Status check_regular(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const FileInfo info, fs.info(at));
  if (info.type == FileInfo::Type::kRegular) return {};
  return refused(at.display(), "it is not a regular file");
}

}  // namespace

Hash Export::to_hash() const {
  Hash hash;
  hash.set_value(kCacheKey, cache);
  hash.set_value(kFileKey, file);
  return hash;
}

Result<Export> Export::from_hash(const Hash& hash) {
  Export found;
  SCR_ASSIGN_OR_RETURN(found.cache, hash.require_value(kCacheKey));
  SCR_ASSIGN_OR_RETURN(const std::string file, hash.require_value(kFileKey));
  SCR_ASSIGN_OR_RETURN(found.file, safe_relative_path(file));
  return found;
}

Result<std::uint64_t> make_id(std::int64_t dataset, std::int64_t rank, std::int64_t index) {
  const auto fits = [](std::int64_t value, unsigned bits) {
    return value >= 0 && value < (std::int64_t{1} << bits);
  };
  if (!fits(dataset, kDatasetBits) || !fits(rank, kRankBits) || !fits(index, kIndexBits)) {
    return invalid_argument(
        fmt::format("file {} of rank {} in dataset {} cannot be given an id: the range service "
                    "counts to {}, {} "
                    "and {}",
                    index, rank, dataset, (1U << kIndexBits) - 1, (1U << kRankBits) - 1,
                    (1U << kDatasetBits) - 1));
  }
  return (static_cast<std::uint64_t>(dataset) << (kRankBits + kIndexBits)) |
         (static_cast<std::uint64_t>(rank) << kIndexBits) | static_cast<std::uint64_t>(index);
}

Status Exports::publish(std::uint64_t id, const Directory& cache, const std::string& path) {
  SCR_ASSIGN_OR_RETURN(const std::string file, safe_relative_path(path));
  return write_hash_file(fs_, At(control_, export_name(id)), Export{cache.path(), file}.to_hash(),
                         Durability::kVolatile, 0600);
}

Status Exports::withdraw(std::uint64_t id) {
  return fs_.remove_if_exists(At(control_, export_name(id)));
}

Status Exports::withdraw_all() {
  SCR_ASSIGN_OR_RETURN(const auto entries, fs_.list(At(control_, ".")));
  for (const DirectoryEntry& entry : entries) {
    if (!entry.name.starts_with(kPrefix) || !entry.name.ends_with(kSuffix)) continue;
    SCR_RETURN_IF_ERROR(fs_.remove_if_exists(At(control_, entry.name)));
  }
  return {};
}

Result<std::unique_ptr<File>> Exports::resolve(std::uint64_t id) const {
  const At at(control_, export_name(id));
  const auto found = fs_.info(at);
  if (!found.ok() && found.status().code() == StatusCode::kNotFound) {
    return not_found(fmt::format("no file is published under the id {:#x}", id));
  }
  if (!found.ok()) return found.status();
  if (found->type != FileInfo::Type::kRegular || found->size > kLargestExport) {
    return refused(at.display(), "it is not a small regular file");
  }
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs_, at));
  SCR_ASSIGN_OR_RETURN(const Export published, Export::from_hash(hash));
  const auto cache = std::find_if(caches_.begin(), caches_.end(), [&](const Directory* directory) {
    return directory->path() == published.cache;
  });
  if (cache == caches_.end())
    return refused(published.cache, "it is no cache directory of this job");
  const At file(**cache, published.file);
  SCR_RETURN_IF_ERROR(check_regular(fs_, file));
  return fs_.open(file, OpenOptions::read());
}

Resolver Exports::resolver() const {
  return [exports = *this](std::uint64_t id) { return exports.resolve(id); };
}

}  // namespace scr::service
