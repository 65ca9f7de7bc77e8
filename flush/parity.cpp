#include "flush/parity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "core/base/checksum.hpp"
#include "core/base/log.hpp"
#include "redundancy/combination.hpp"

namespace scr::flush {

namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;

struct Group {
  std::uint64_t first = 0;  // container
  int size = 0;
  std::uint64_t first_parity = 0;
};

std::vector<Group> groups_of(const Summary& summary) {
  std::vector<Group> groups;
  for (std::uint64_t first = 0; first < summary.container_count; first += kGroupSize) {
    const auto size = static_cast<int>(std::min(kGroupSize, summary.container_count - first));
    groups.push_back({first, size, groups.size() * summary.container_parity});
  }
  return groups;
}

// Parity is as long as the longest container of the group: its first.
std::uint64_t parity_length(const Summary& summary, const Group& group) {
  return container_length(summary, group.first);
}

struct FreeDeleter {
  void operator()(std::byte* pointer) const { std::free(pointer); }  // NOLINT: from aligned_alloc
};
using Buffer = std::unique_ptr<std::byte, FreeDeleter>;

// For windows of data that is `length` long in all.
std::vector<Buffer> make_buffers(std::size_t count, std::uint64_t length) {
  constexpr std::size_t kPage = 4096;
  const std::size_t window = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, length));
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    buffers.emplace_back(
        static_cast<std::byte*>(std::aligned_alloc(kPage, (window + kPage - 1) / kPage * kPage)));
  }
  return buffers;
}

// Reads a window; what is beyond the end of the file is zero.
Status read_window(File& file, std::uint64_t offset, std::span<std::byte> window) {
  SCR_ASSIGN_OR_RETURN(std::size_t got, file.read(window, offset));
  std::fill(window.begin() + static_cast<std::ptrdiff_t>(got), window.end(), std::byte{0});
  return {};
}

// Computes outputs from inputs, window by window. Positions of a code word: parities first, then
// data.
class WindowCoder {
 public:
  WindowCoder(const Summary& summary, const Group& group, const std::vector<int>& given,
              const std::vector<int>& wanted)
      : combination_(
            redundancy::make_combination(group.size + static_cast<int>(summary.container_parity),
                                         static_cast<int>(summary.container_parity),
                                         summary.container_parity == 1, given, wanted)),
        inputs_(make_buffers(given.size(), parity_length(summary, group))),
        outputs_(make_buffers(wanted.size(), parity_length(summary, group))) {}

  Status compute(std::vector<std::unique_ptr<File>>& files, std::uint64_t offset,
                 std::size_t length) {
    std::vector<const std::byte*> in;
    for (std::size_t i = 0; i < files.size(); ++i) {
      SCR_RETURN_IF_ERROR(read_window(*files[i], offset, {inputs_[i].get(), length}));
      in.push_back(inputs_[i].get());
    }
    std::vector<std::byte*> out;
    for (const Buffer& buffer : outputs_) out.push_back(buffer.get());
    if (in.size() == 1 && combination_.is_xor()) {  // the XOR of one is itself
      for (std::byte* buffer : out) std::copy_n(in.front(), length, buffer);
    } else {
      combination_.apply(in, out, length);
    }
    return {};
  }
  std::span<const std::byte> output(std::size_t i, std::size_t length) const {
    return {outputs_[i].get(), length};
  }

 private:
  redundancy::Combination combination_;
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;
};

std::vector<int> positions(int first, int count) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(first + i);
  return list;
}

Result<std::vector<std::unique_ptr<File>>> open_all(FileSystem& fs,
                                                    const std::vector<std::string>& names,
                                                    const OpenOptions& options) {
  std::vector<std::unique_ptr<File>> files;
  for (const std::string& name : names) {
    auto file = fs.open(name, options);
    if (!file.ok()) return file.status();
    files.push_back(std::move(*file));
  }
  return files;
}

// (parity container, window) -> checksum of that window.
using WindowChecksums = std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t>;

Status encode_group(Communicator& world, FileSystem& fs, const Summary& summary, const Group& group,
                    const std::vector<std::string>& data, const std::vector<std::string>& parity,
                    WindowChecksums& checksums) {
  const auto k = static_cast<int>(summary.container_parity);
  const std::uint64_t length = parity_length(summary, group);
  if (static_cast<std::uint64_t>(world.rank()) * kWindow >= length)
    return {};  // no window for this rank
  const auto begin = data.begin() + static_cast<std::ptrdiff_t>(group.first);
  SCR_ASSIGN_OR_RETURN(auto inputs, open_all(fs, {begin, begin + group.size}, OpenOptions::read()));
  OpenOptions create = OpenOptions::read_write();
  create.create = true;
  const auto first = parity.begin() + static_cast<std::ptrdiff_t>(group.first_parity);
  SCR_ASSIGN_OR_RETURN(auto outputs, open_all(fs, {first, first + k}, create));
  WindowCoder coder(summary, group, positions(k, group.size), positions(0, k));
  const auto ranks = static_cast<std::uint64_t>(world.size());
  for (auto window = static_cast<std::uint64_t>(world.rank()); window * kWindow < length;
       window += ranks) {
    const std::uint64_t offset = window * kWindow;
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, length - offset));
    SCR_RETURN_IF_ERROR(coder.compute(inputs, offset, part));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      SCR_RETURN_IF_ERROR(outputs[i]->write_all(coder.output(i, part), offset));
      checksums[{group.first_parity + i, window}] = crc32(coder.output(i, part));
    }
  }
  for (auto& file : outputs) {
    SCR_RETURN_IF_ERROR(file->sync());
    SCR_RETURN_IF_ERROR(file->close());
  }
  return {};
}

}  // namespace

std::uint64_t container_length(const Summary& summary, std::uint64_t index) {
  const std::uint64_t start = index * summary.container_size;
  return std::min(summary.container_size, summary.stream_size - start);
}

std::uint64_t parity_container_length(const Summary& summary, std::uint64_t index) {
  return container_length(summary, index / summary.container_parity * kGroupSize);
}

std::uint64_t parity_container_count(const Summary& summary) {
  const std::uint64_t groups =
      summary.container_count / kGroupSize + (summary.container_count % kGroupSize != 0 ? 1 : 0);
  return groups * summary.container_parity;
}

Result<std::vector<std::uint32_t>> write_parity_containers(Communicator& world, FileSystem& fs,
                                                           const Summary& summary,
                                                           const std::vector<std::string>& data,
                                                           const std::vector<std::string>& parity) {
  if (summary.container_parity == 0) return std::vector<std::uint32_t>();
  WindowChecksums checksums;
  Status status;
  for (const Group& group : groups_of(summary)) {
    if (status.ok()) status = encode_group(world, fs, summary, group, data, parity, checksums);
  }
  if (!world.all_true(status.ok())) {
    return status.ok() ? Status(StatusCode::kUnavailable, "writing parity failed on another rank")
                       : status;
  }
  // Rank 0 puts the checksums of the windows together, in order.
  Hash send;
  for (const auto& [key, crc] : checksums) {
    send.at("0").at(std::to_string(key.first)).set_value(std::to_string(key.second), crc);
  }
  Hash receive;
  SCR_RETURN_IF_ERROR(exchange_hashes(world, send, receive));
  std::vector<std::uint32_t> result;
  if (world.rank() != 0) return result;
  Hash all;
  for (const auto& element : receive.elements()) all.merge(element.hash);
  for (const Group& group : groups_of(summary)) {
    const std::uint64_t length = parity_length(summary, group);
    for (std::uint64_t i = 0; i < summary.container_parity; ++i) {
      std::uint32_t crc = 0;
      for (std::uint64_t offset = 0; offset < length; offset += kWindow) {
        const Hash* windows = all.get(std::to_string(group.first_parity + i));
        if (windows == nullptr)
          return internal_error("a parity container was written without a checksum");
        SCR_ASSIGN_OR_RETURN(auto value, windows->require_uint(std::to_string(offset / kWindow)));
        crc = crc32_combine(crc, static_cast<std::uint32_t>(value),
                            std::min<std::uint64_t>(kWindow, length - offset));
      }
      result.push_back(crc);
    }
  }
  return result;
}

// --- repair
// -------------------------------------------------------------------------------------------

namespace {

// All segments of a dataset by container.
using SegmentMap = std::map<std::string, std::vector<Segment>>;

Result<SegmentMap> read_segments(FileSystem& fs, const std::string& directory) {
  SegmentMap map;
  SCR_ASSIGN_OR_RETURN(int ranks, read_rank_count(fs, directory));
  for (int block = 0; block < rank2file_block_count(ranks); ++block) {
    SCR_ASSIGN_OR_RETURN(auto files, read_rank2file_block(fs, directory, block));
    for (const auto& [rank, list] : files) {
      for (const StoredFile& file : list) {
        for (const Segment& segment : file.segments) map[segment.file].push_back(segment);
      }
    }
  }
  return map;
}

Result<std::uint32_t> checksum_range(File& file, std::uint64_t offset, std::uint64_t length,
                                     std::vector<std::byte>& buffer) {
  Crc32 crc;
  for (std::uint64_t done = 0; done < length;) {
    const auto part =
        static_cast<std::size_t>(std::min<std::uint64_t>(length - done, buffer.size()));
    const std::span<std::byte> data(buffer.data(), part);
    SCR_RETURN_IF_ERROR(file.read_exactly(data, offset + done));
    crc.update(data);
    done += part;
  }
  return crc.value();
}

Status verify_segments(FileSystem& fs, const std::string& path,
                       const std::vector<Segment>& segments) {
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(path, OpenOptions::read()));
  std::uint64_t longest = 1;
  for (const Segment& segment : segments) longest = std::max(longest, segment.length);
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, longest)));
  for (const Segment& segment : segments) {
    SCR_ASSIGN_OR_RETURN(std::uint32_t crc,
                         checksum_range(*file, segment.offset, segment.length, buffer));
    if (crc != segment.crc) {
      return corrupt(fmt::format("'{}' is damaged between byte {} and {}", path, segment.offset,
                                 segment.offset + segment.length));
    }
  }
  return {};
}

Status verify_parity(FileSystem& fs, const std::string& path, std::uint64_t length,
                     std::uint32_t expected) {
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(path, OpenOptions::read()));
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::clamp<std::uint64_t>(length, 1, kWindow)));
  SCR_ASSIGN_OR_RETURN(std::uint32_t crc, checksum_range(*file, 0, length, buffer));
  return crc == expected ? Status() : corrupt("'" + path + "' is damaged");
}

std::string repair_name(const std::string& container) { return "." + container + ".repair.tmp"; }

// Writes the lost containers of a group from the given ones; each is verified before it gets its
// name.
Status rebuild_group(FileSystem& fs, const std::string& directory, const Summary& summary,
                     const Group& group, const std::vector<int>& given,
                     const std::vector<int>& lost, const SegmentMap& segments) {
  const auto k = static_cast<int>(summary.container_parity);
  auto name_of = [&](int position) {
    return position < k
               ? parity_container_name(group.first_parity + static_cast<std::uint64_t>(position))
               : container_name(group.first + static_cast<std::uint64_t>(position - k));
  };
  std::vector<std::string> in;
  std::vector<std::string> out;
  for (int position : given) in.push_back(directory + "/" + name_of(position));
  for (int position : lost) out.push_back(directory + "/" + repair_name(name_of(position)));
  SCR_ASSIGN_OR_RETURN(auto inputs, open_all(fs, in, OpenOptions::read()));
  SCR_ASSIGN_OR_RETURN(auto outputs, open_all(fs, out, OpenOptions::create_truncate()));
  WindowCoder coder(summary, group, given, lost);
  const std::uint64_t length = parity_length(summary, group);
  for (std::uint64_t offset = 0; offset < length; offset += kWindow) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, length - offset));
    SCR_RETURN_IF_ERROR(coder.compute(inputs, offset, part));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      SCR_RETURN_IF_ERROR(outputs[i]->write_all(coder.output(i, part), offset));
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto container = group.first + static_cast<std::uint64_t>(lost[i] - k);
    SCR_RETURN_IF_ERROR(outputs[i]->truncate(container_length(summary, container)));
    SCR_RETURN_IF_ERROR(outputs[i]->sync());
    SCR_RETURN_IF_ERROR(outputs[i]->close());
    SCR_RETURN_IF_ERROR(verify_segments(fs, out[i], segments.at(name_of(lost[i]))));
    SCR_RETURN_IF_ERROR(fs.rename(out[i], directory + "/" + name_of(lost[i])));
  }
  return fs.sync_directory(directory);
}

Status repair_group(FileSystem& fs, const std::string& directory, const Summary& summary,
                    const Group& group, const SegmentMap& segments,
                    std::vector<std::string>& repaired) {
  const auto k = static_cast<int>(summary.container_parity);
  std::vector<int> given;
  std::vector<int> lost;
  Status first;
  for (int i = 0; i < group.size; ++i) {
    const std::string name = container_name(group.first + static_cast<std::uint64_t>(i));
    auto list = segments.find(name);
    if (list == segments.end())
      return corrupt("no file has data in '" + directory + "/" + name + "'");
    Status status = verify_segments(fs, directory + "/" + name, list->second);
    (status.ok() ? given : lost).push_back(k + i);
    if (first.ok()) first = status;
  }
  if (lost.empty()) return {};
  for (int i = 0; i < k && static_cast<int>(given.size()) < group.size; ++i) {
    const std::uint64_t index = group.first_parity + static_cast<std::uint64_t>(i);
    Status status = index < summary.parity_crcs.size()
                        ? verify_parity(fs, directory + "/" + parity_container_name(index),
                                        parity_length(summary, group), summary.parity_crcs[index])
                        : corrupt("no checksum");
    if (status.ok()) given.push_back(i);
  }
  if (static_cast<int>(given.size()) < group.size) {
    return {
        k == 0 ? StatusCode::kCorrupt : StatusCode::kUnrecoverable,
        fmt::format(
            "{} of {} containers are lost or damaged, more than parity bears ({}); the first: {}",
            lost.size(), group.size, k, first.message())};
  }
  if (Status status = rebuild_group(fs, directory, summary, group, given, lost, segments);
      !status.ok()) {
    for (int position : lost) {
      const auto index = group.first + static_cast<std::uint64_t>(position - k);
      (void)fs.remove_if_exists(directory + "/" + repair_name(container_name(index)));
    }
    return status;
  }
  for (int position : lost)
    repaired.push_back(container_name(group.first + static_cast<std::uint64_t>(position - k)));
  return {};
}

}  // namespace

Status verify_parity_containers(FileSystem& fs, const std::string& directory,
                                const Summary& summary, std::vector<std::string>& problems) {
  for (const Group& group : groups_of(summary)) {
    for (std::uint64_t i = 0; i < summary.container_parity; ++i) {
      const std::uint64_t index = group.first_parity + i;
      Status status = verify_parity(fs, directory + "/" + parity_container_name(index),
                                    parity_length(summary, group), summary.parity_crcs[index]);
      if (!status.ok()) problems.emplace_back(status.message());
    }
  }
  return {};
}

Result<std::vector<std::string>> repair_containers(FileSystem& fs, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(Summary summary, read_summary(fs, directory));
  SCR_ASSIGN_OR_RETURN(SegmentMap segments, read_segments(fs, directory));
  std::vector<std::string> repaired;
  for (const Group& group : groups_of(summary)) {
    SCR_RETURN_IF_ERROR(repair_group(fs, directory, summary, group, segments, repaired));
  }
  return repaired;
}

}  // namespace scr::flush
