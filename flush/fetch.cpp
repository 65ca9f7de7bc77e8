#include "flush/fetch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/checksum.hpp"
#include "core/base/holes.hpp"
#include "flush/parity.hpp"

namespace scr::flush {

namespace {

// Read, checksummed and written at a time: what fits into a core's own cache. The system reads
// ahead in larger pieces.
constexpr std::size_t kCachePart = std::size_t{256} << 10U;

// Reads the bytes of a stored file in order, piece by piece, and hands each to `sink`. Verifies
// segments and the whole; a file of the wrong length is damaged.
class StoredReader {
 public:
  StoredReader(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
               std::size_t buffer)
      : fs_(fs),
        prefix_(prefix),
        directory_(prefix + "/.scr/" + directory_name),
        buffer_(std::min(buffer, kCachePart)) {}

  using Sink = std::function<Status(std::span<const std::byte>, std::uint64_t offset)>;

  Status read(const StoredFile& file, const Sink& sink) {
    return file.contained() ? read_segments(file, sink) : read_plain(file, sink);
  }

 private:
  Status read_plain(const StoredFile& file, const Sink& sink) {
    const std::string path = (file.fetch ? prefix_ : directory_) + "/" + file.file;
    SCR_ASSIGN_OR_RETURN(auto source, fs_.open(path, OpenOptions::read()));
    SCR_ASSIGN_OR_RETURN(FileInfo info, source->info());
    if (info.size != file.size) {
      return corrupt(fmt::format("'{}' has {} bytes instead of {}", path, info.size, file.size));
    }
    SCR_ASSIGN_OR_RETURN(std::uint32_t crc, read_range(*source, 0, file.size, 0, sink));
    if (crc != file.crc) {
      return corrupt(fmt::format("'{}' has the checksum {} instead of {}", path, crc32_to_text(crc),
                                 crc32_to_text(file.crc)));
    }
    return {};
  }

  Status read_segments(const StoredFile& file, const Sink& sink) {
    std::uint64_t position = 0;
    std::uint32_t whole = 0;
    for (const Segment& segment : file.segments) {
      const std::string path = directory_ + "/" + segment.file;
      SCR_ASSIGN_OR_RETURN(auto source, fs_.open(path, OpenOptions::read()));
      SCR_ASSIGN_OR_RETURN(std::uint32_t crc,
                           read_range(*source, segment.offset, segment.length, position, sink));
      if (crc != segment.crc) {
        return corrupt(fmt::format("'{}' is damaged between byte {} and {} (part of '{}')", path,
                                   segment.offset, segment.offset + segment.length, file.file));
      }
      whole = crc32_combine(whole, crc, segment.length);
      position += segment.length;
    }
    if (whole != file.crc)
      return corrupt(fmt::format("'{}' has a wrong checksum in its containers", file.file));
    return {};
  }

  Result<std::uint32_t> read_range(File& source, std::uint64_t offset, std::uint64_t length,
                                   std::uint64_t position, const Sink& sink) {
    Crc32 crc;
    for (std::uint64_t done = 0; done < length;) {
      const auto part =
          static_cast<std::size_t>(std::min<std::uint64_t>(length - done, buffer_.size()));
      const std::span<std::byte> data(buffer_.data(), part);
      SCR_RETURN_IF_ERROR(source.read_exactly(data, offset + done));
      crc.update(data);
      SCR_RETURN_IF_ERROR(sink(data, position + done));
      done += part;
    }
    return crc.value();
  }

  FileSystem& fs_;
  std::string prefix_;
  std::string directory_;
  std::vector<std::byte> buffer_;
};

}  // namespace

Status fetch_files(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                   const RankFiles& files, const std::string& cache_directory,
                   std::size_t buffer_size, const std::function<void(std::uint64_t)>& progress) {
  std::uint64_t bytes = 0;
  StoredReader reader(fs, prefix, directory_name, buffer_size);
  SCR_ASSIGN_OR_RETURN(auto directory, fs.open_directory(cache_directory));
  for (const StoredFile& file : files) {
    if (!file.fetch) continue;
    if (file.shared) {  // read where it is, but only if every byte is right
      SCR_RETURN_IF_ERROR(
          reader.read(file, [](std::span<const std::byte>, std::uint64_t) { return Status(); }));
      continue;
    }
    if (const std::size_t slash = file.file.rfind('/'); slash != std::string::npos) {
      SCR_RETURN_IF_ERROR(fs.make_directories(At(*directory, file.file.substr(0, slash)), 0700));
    }
    SCR_ASSIGN_OR_RETURN(auto target,
                         fs.open(At(*directory, file.file), OpenOptions::create_truncate()));
    SCR_RETURN_IF_ERROR(
        reader.read(file, [&](std::span<const std::byte> data, std::uint64_t offset) {
          bytes += data.size();
          if (progress) progress(bytes);
          return write_with_holes(*target, data, offset);
        }));
    SCR_RETURN_IF_ERROR(target->close());
  }
  return {};
}

Status verify_files(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const RankFiles& files, std::size_t buffer_size,
                    const std::function<void(std::uint64_t)>& progress) {
  std::uint64_t bytes = 0;
  StoredReader reader(fs, prefix, directory_name, buffer_size);
  for (const StoredFile& file : files) {
    if (!file.fetch) continue;
    SCR_RETURN_IF_ERROR(reader.read(file, [&](std::span<const std::byte> data, std::uint64_t) {
      bytes += data.size();
      if (progress) progress(bytes);
      return Status();
    }));
  }
  return {};
}

Status verify_dataset(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                      const std::function<void(std::uint64_t)>& progress,
                      std::vector<std::string>& problems) {
  const std::string directory = prefix + "/.scr/" + directory_name;
  SCR_ASSIGN_OR_RETURN(Summary summary, read_summary(fs, directory));
  if (!summary.complete)
    problems.push_back("'" + directory + "/summary.scr' says that the dataset is not complete");
  StoredReader reader(fs, prefix, directory_name, std::size_t{1} << 20);
  std::uint64_t bytes = 0;
  SCR_ASSIGN_OR_RETURN(int ranks, read_rank_count(fs, directory));
  int seen = 0;
  for (int block = 0; block < rank2file_block_count(ranks); ++block) {
    SCR_ASSIGN_OR_RETURN(auto files, read_rank2file_block(fs, directory, block));
    seen += static_cast<int>(files.size());
    for (const auto& [rank, list] : files) {
      for (const StoredFile& file : list) {
        Status status = reader.read(file, [&](std::span<const std::byte> data, std::uint64_t) {
          if (file.fetch) bytes += data.size();
          if (progress) progress(bytes);
          return Status();
        });
        if (!status.ok()) problems.emplace_back(status.message());
      }
    }
  }
  SCR_RETURN_IF_ERROR(verify_parity_containers(fs, directory, summary, problems));
  if (seen != ranks)
    problems.push_back(fmt::format("'{}' lists {} of {} ranks", directory, seen, ranks));
  return {};
}

Result<std::pair<std::uint64_t, std::uint32_t>> checksum_file(FileSystem& fs,
                                                              const std::string& path) {
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(path, OpenOptions::read()));
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  Crc32 sum;
  std::uint64_t size = 0;
  while (true) {
    SCR_ASSIGN_OR_RETURN(std::size_t got, file->read(buffer, size));
    if (got == 0) return std::pair(size, sum.value());
    sum.update(std::span(buffer).first(got));
    size += got;
  }
}

Result<bool> is_flushed_file(FileSystem& fs, const std::string& path, const StoredFile& file) {
  const auto info = fs.info(path);
  if (info.status().code() == StatusCode::kNotFound) return false;
  SCR_RETURN_IF_ERROR(info.status());
  if (info->type != FileInfo::Type::kRegular || info->size != file.size) return false;
  if (file.mtime_ns && *file.mtime_ns == info->mtime_ns) return true;
  return has_checksum(fs, path, file.size, file.crc);
}

Result<bool> has_checksum(FileSystem& fs, const std::string& path, std::uint64_t size,
                          std::uint32_t crc) {
  SCR_ASSIGN_OR_RETURN(auto found, checksum_file(fs, path));
  return found.first == size && found.second == crc;
}

}  // namespace scr::flush
