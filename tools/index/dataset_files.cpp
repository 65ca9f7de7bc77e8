#include "tools/index/dataset_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/checksum.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/rank2file.hpp"

namespace scr::tools {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

bool is_wanted(const std::string& pattern, const std::string& name) {
  return pattern.empty() || text::glob_match(pattern, name);
}

// A file that several processes wrote together is one file, whoever has logs of it. One of them
// knows its size, which may be on another node.
void add_shared(const FileMeta& meta, int rank, std::vector<DatasetFile>& files) {
  auto file = std::ranges::find_if(
      files, [&](const DatasetFile& each) { return each.only_logs && each.name == meta.shared; });
  if (file == files.end()) {
    file = files.emplace(files.end());
    file->name = meta.shared;
    file->rank = rank;
    file->only_logs = true;
  }
  if (!meta.shared_size) return;
  file->size = *meta.shared_size;
  file->rank = rank;
}

std::vector<DatasetFile> cached_files(const DatasetRow& row, const std::string& pattern) {
  std::vector<DatasetFile> files;
  for (std::size_t i = 0; i < row.cached.size(); ++i) {
    for (const FileMeta& meta : row.cached[i].files) {
      if (meta.type != FileType::kFull) continue;
      if (!is_wanted(pattern, meta.shared.empty() ? meta.file : meta.shared)) continue;
      if (!meta.shared.empty()) {
        add_shared(meta, row.cached_ranks[i], files);
        continue;
      }
      DatasetFile& file = files.emplace_back();
      file.name = meta.file;
      file.rank = row.cached_ranks[i];
      file.size = meta.size;
      file.crc = meta.crc;
      file.cached = row.cached[i].directory + "/" + meta.file;
    }
  }
  std::stable_sort(files.begin(), files.end(),
                   [](const auto& one, const auto& other) { return one.rank < other.rank; });
  return files;
}

}  // namespace

std::string only_logs_text(const DatasetFile& file) {
  return fmt::format(
      "'{}' was written by several processes, and only their logs are in the cache: flush it first "
      "(scr_postrun)",
      text::escape(file.name));
}

Result<std::vector<DatasetFile>> files_of(FileSystem& fs, const std::string& prefix,
                                          const DatasetRow& row, const std::string& pattern,
                                          bool first_block_only) {
  if (!row.in_prefix) return cached_files(row, pattern);
  const std::string directory = prefix + "/.scr/" + row.entry.directory;
  SCR_ASSIGN_OR_RETURN(const int ranks, flush::read_rank_count(fs, directory));
  const int blocks = first_block_only ? 1 : flush::rank2file_block_count(ranks);
  std::vector<DatasetFile> files;
  for (int block = 0; block < blocks; ++block) {
    SCR_ASSIGN_OR_RETURN(auto list, flush::read_rank2file_block(fs, directory, block));
    for (auto& [rank, stored_files] : list) {
      for (flush::StoredFile& stored : stored_files) {
        if (!stored.fetch || !is_wanted(pattern, stored.file)) continue;
        DatasetFile& file = files.emplace_back();
        file.name = stored.file;
        file.rank = rank;
        file.size = stored.size;
        file.crc = stored.crc;
        file.stored = {row.dataset(), row.entry.directory, rank, std::move(stored)};
      }
    }
  }
  return files;
}

Result<std::unique_ptr<File>> open_file(FileSystem& fs, const std::string& prefix,
                                        const DatasetFile& file) {
  if (file.stored) return flush::open_stored(fs, prefix, *file.stored, flush::Verify::kNone);
  if (file.only_logs) return failed_precondition(only_logs_text(file));
  return fs.open(file.cached, OpenOptions::read());
}

Result<bool> is_hdf5(File& file) {
  SCR_ASSIGN_OR_RETURN(const FileInfo info, file.info());
  std::array<std::byte, kSignature.size()> bytes{};
  for (std::uint64_t at = 0; at + bytes.size() <= info.size; at = at == 0 ? 512 : at * 2) {
    SCR_ASSIGN_OR_RETURN(const std::size_t count, file.read(bytes, at));
    if (count == bytes.size() && std::memcmp(bytes.data(), kSignature.data(), count) == 0) {
      return true;
    }
    if (at > (std::uint64_t{1} << 40U)) break;
  }
  return false;
}

Status verify_file(FileSystem& fs, const std::string& prefix, const DatasetFile& file,
                   const ByteSink& sink) {
  SCR_ASSIGN_OR_RETURN(const auto source, open_file(fs, prefix, file));
  std::vector<std::byte> buffer(std::size_t{1} << 20U);
  Crc32 sum;
  std::uint64_t size = 0;
  for (;;) {
    SCR_ASSIGN_OR_RETURN(const std::size_t count, source->read(buffer, size));
    if (count == 0) break;
    const auto data = std::span(buffer).first(count);
    sum.update(data);
    if (sink) SCR_RETURN_IF_ERROR(sink(data, size));
    size += count;
  }
  if (size != file.size) {
    return corrupt(fmt::format("'{}' has {} bytes instead of {}", file.name, size, file.size));
  }
  if (file.crc && sum.value() != *file.crc) {
    return corrupt(fmt::format("'{}' has the checksum {} instead of {}", file.name,
                               crc32_to_text(sum.value()), crc32_to_text(*file.crc)));
  }
  return {};
}

DatasetSource::DatasetSource(FileSystem& fs, std::string prefix,
                             const std::vector<DatasetFile>& files)
    : fs_(fs), prefix_(std::move(prefix)) {
  for (const DatasetFile& file : files) files_.emplace(file.name, &file);
}

Result<std::unique_ptr<File>> DatasetSource::open(const std::string& name) {
  const std::string absolute = normalize(name, prefix_);
  const auto relative = relative_to(absolute, prefix_);
  const auto found = relative ? files_.find(*relative) : files_.end();
  if (found == files_.end()) {
    return not_found(fmt::format("'{}' is no file of the dataset", text::escape(name)));
  }
  return open_file(fs_, prefix_, *found->second);
}

}  // namespace scr::tools
