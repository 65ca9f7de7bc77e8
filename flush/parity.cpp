#include "flush/parity.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "core/base/checksum.hpp"
#include "core/base/file_checksum.hpp"
#include "core/base/log.hpp"
#include "redundancy/combination.hpp"

namespace scr::flush {

namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;

std::vector<ContainerGroup> groups_of(const Summary& summary) {
  std::vector<ContainerGroup> groups;
  for (std::uint64_t first = 0; first < summary.container_count; first += kGroupSize) {
    const auto size = static_cast<int>(std::min(kGroupSize, summary.container_count - first));
    groups.push_back({first, size, groups.size() * summary.container_parity});
  }
  return groups;
}

// Parity is as long as the longest container of the group: its first.
std::uint64_t parity_length(const Summary& summary, const ContainerGroup& group) {
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
  WindowCoder(const Summary& summary, const ContainerGroup& group, const std::vector<int>& given,
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

Status ParityWriter::encode_group(const ContainerGroup& group, int rank, int ranks, Pacer* pacer) {
  const auto k = static_cast<int>(summary_.container_parity);
  const std::uint64_t length = parity_length(summary_, group);
  const auto first_window = static_cast<std::uint64_t>(rank);
  if (first_window * kWindow >= length) return {};  // no window for this rank
  const auto begin = data_.begin() + static_cast<std::ptrdiff_t>(group.first);
  SCR_ASSIGN_OR_RETURN(auto inputs,
                       open_all(fs_, {begin, begin + group.size}, OpenOptions::read()));
  OpenOptions create = OpenOptions::read_write();
  create.create = true;
  const auto first = parity_.begin() + static_cast<std::ptrdiff_t>(group.first_parity);
  SCR_ASSIGN_OR_RETURN(auto outputs, open_all(fs_, {first, first + k}, create));
  WindowCoder coder(summary_, group, positions(k, group.size), positions(0, k));
  for (std::uint64_t window = first_window; window * kWindow < length;
       window += static_cast<std::uint64_t>(ranks)) {
    if (pacer != nullptr && pacer->cancelled())
      return {StatusCode::kUnavailable, "writing parity was cancelled"};
    const std::uint64_t offset = window * kWindow;
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, length - offset));
    SCR_RETURN_IF_ERROR(coder.compute(inputs, offset, part));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      SCR_RETURN_IF_ERROR(outputs[i]->write_all(coder.output(i, part), offset));
      checksums_[{group.first_parity + i, window}] = crc32(coder.output(i, part));
    }
    // What is read counts, too: the limit is for the parallel file system.
    if (pacer != nullptr) pacer->pause(part * (inputs.size() + outputs.size()));
  }
  for (auto& file : outputs) {
    SCR_RETURN_IF_ERROR(file->sync());
    SCR_RETURN_IF_ERROR(file->close());
  }
  return {};
}

double ParityWriter::share_of(int rank, int ranks) const {
  std::uint64_t all = 0;
  std::uint64_t own = 0;
  for (const ContainerGroup& group : groups_of(summary_)) {
    const std::uint64_t windows = (parity_length(summary_, group) + kWindow - 1) / kWindow;
    const auto first = static_cast<std::uint64_t>(rank);
    const auto step = static_cast<std::uint64_t>(ranks);
    all += windows;
    if (first < windows) own += (windows - first + step - 1) / step;
  }
  return all == 0 ? 0 : static_cast<double>(own) / static_cast<double>(all);
}

Status ParityWriter::write_share(int rank, int ranks, Pacer* pacer) {
  checksums_.clear();
  if (summary_.container_parity == 0) return {};
  for (const ContainerGroup& group : groups_of(summary_)) {
    SCR_RETURN_IF_ERROR(encode_group(group, rank, ranks, pacer));
  }
  return {};
}

Result<std::vector<std::uint32_t>> ParityWriter::collect(Communicator& world,
                                                         const Status& written) const {
  if (!world.all_true(written.ok())) {
    return written.ok() ? Status(StatusCode::kUnavailable, "writing parity failed on another rank")
                        : written;
  }
  // Rank 0 puts the checksums of the windows together, in order.
  Hash send;
  for (const auto& [key, crc] : checksums_) {
    send.at("0").at(std::to_string(key.first)).set_value(std::to_string(key.second), crc);
  }
  Hash receive;
  SCR_RETURN_IF_ERROR(exchange_hashes(world, send, receive));
  std::vector<std::uint32_t> result;
  if (world.rank() != 0) return result;
  Hash all;
  for (const auto& element : receive.elements()) all.merge(element.hash);
  for (const ContainerGroup& group : groups_of(summary_)) {
    const std::uint64_t length = parity_length(summary_, group);
    for (std::uint64_t i = 0; i < summary_.container_parity; ++i) {
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

// Where containers are built anew: in .scr, where clean_up() finds what a killed repair leaves
// without looking into every dataset. The lock says that a repair is at work.
class Workshop {
 public:
  static Result<Workshop> open(FileSystem& fs, const std::string& directory) {
    const std::filesystem::path path(directory);
    Workshop made(path.parent_path().string(), path.filename().string());
    OpenOptions options = OpenOptions::read_write();
    options.create = true;
    SCR_ASSIGN_OR_RETURN(made.lock_,
                         fs.open(fmt::format("{}/{}.lock", made.parent_, kRepairLock), options));
    Status locked = made.lock_->lock(LockMode::kExclusive, /*wait=*/true);
    if (!locked.ok() && !locks_are_missing(locked)) return locked;
    return made;
  }
  std::string path_of(const std::string& container) const {
    return fmt::format("{}/.{}.tmp.{}.{}.{}", parent_, kRepairLock, dataset_, container,
                       ::getpid());
  }

 private:
  Workshop(std::string parent, std::string dataset)
      : parent_(std::move(parent)), dataset_(std::move(dataset)) {}
  std::string parent_;
  std::string dataset_;
  std::unique_ptr<File> lock_;
};

// One group of a dataset, whose containers have the positions of a code word: parities first.
class GroupRepair {
 public:
  GroupRepair(FileSystem& fs, const std::string& directory, const Summary& summary,
              const ContainerGroup& group, const SegmentMap& segments)
      : fs_(fs),
        directory_(directory),
        summary_(summary),
        group_(group),
        segments_(segments),
        parities_(static_cast<int>(summary.container_parity)) {}

  // Rebuilds data first, so that parity that cannot be written is no reason to do without data.
  Status repair(std::vector<std::string>& repaired) {
    SCR_RETURN_IF_ERROR(look());
    if (!lost_data_.empty()) {
      if (static_cast<int>(good_.size()) < group_.size) return too_much_is_lost();
      SCR_RETURN_IF_ERROR(rebuild(lost_data_, repaired));
    }
    if (lost_parity_.empty()) return {};
    good_ = positions(parities_, group_.size);
    if (Status status = rebuild(lost_parity_, repaired); !status.ok())
      log::warning("parity of '{}' cannot be rebuilt: {}", directory_, status.message());
    return {};
  }

 private:
  std::string name_of(int position) const {
    return position < parities_
               ? parity_container_name(group_.first_parity + static_cast<std::uint64_t>(position))
               : container_name(group_.first + static_cast<std::uint64_t>(position - parities_));
  }
  std::uint64_t length_of(int position) const {
    return position < parities_
               ? parity_length(summary_, group_)
               : container_length(summary_,
                                  group_.first + static_cast<std::uint64_t>(position - parities_));
  }

  Status verify(int position, const std::string& path) const {
    if (position >= parities_) return verify_segments(fs_, path, segments_.at(name_of(position)));
    const std::uint64_t index = group_.first_parity + static_cast<std::uint64_t>(position);
    if (index >= summary_.parity_crcs.size()) return corrupt("'" + path + "' has no checksum");
    return verify_parity(fs_, path, length_of(position), summary_.parity_crcs[index]);
  }

  // Which containers are right. Of the good ones as many as there are data, data first, are used.
  Status look() {
    for (int position = parities_; position < parities_ + group_.size; ++position) {
      const std::string path = directory_ + "/" + name_of(position);
      if (!segments_.contains(name_of(position)))
        return corrupt("no file has data in '" + path + "'");
      Status status = verify(position, path);
      (status.ok() ? good_ : lost_data_).push_back(position);
      if (first_.ok()) first_ = status;
    }
    for (int position = 0; position < parities_; ++position) {
      if (!verify(position, directory_ + "/" + name_of(position)).ok())
        lost_parity_.push_back(position);
      else if (static_cast<int>(good_.size()) < group_.size)
        good_.push_back(position);
    }
    return {};
  }

  Status too_much_is_lost() const {
    return {parities_ == 0 ? StatusCode::kCorrupt : StatusCode::kUnrecoverable,
            fmt::format("{} of {} containers are lost or damaged, more than parity bears ({}); the "
                        "first: {}",
                        lost_data_.size(), group_.size, parities_, first_.message())};
  }

  Status rebuild(const std::vector<int>& lost, std::vector<std::string>& repaired) {
    SCR_ASSIGN_OR_RETURN(const Workshop workshop, Workshop::open(fs_, directory_));
    Status status = compute(workshop, lost);
    for (int position : lost) {
      const std::string made = workshop.path_of(name_of(position));
      if (status.ok()) status = take(position, made, repaired);
      if (!status.ok()) (void)fs_.remove_if_exists(made);
    }
    return status.ok() ? fs_.sync_directory(directory_) : status;
  }

  Status compute(const Workshop& workshop, const std::vector<int>& lost) {
    std::vector<std::string> in;
    std::vector<std::string> out;
    for (int position : good_) in.push_back(directory_ + "/" + name_of(position));
    for (int position : lost) out.push_back(workshop.path_of(name_of(position)));
    SCR_ASSIGN_OR_RETURN(auto inputs, open_all(fs_, in, OpenOptions::read()));
    SCR_ASSIGN_OR_RETURN(auto outputs, open_all(fs_, out, OpenOptions::create_truncate()));
    WindowCoder coder(summary_, group_, good_, lost);
    const std::uint64_t length = parity_length(summary_, group_);
    for (std::uint64_t offset = 0; offset < length; offset += kWindow) {
      const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, length - offset));
      SCR_RETURN_IF_ERROR(coder.compute(inputs, offset, part));
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        SCR_RETURN_IF_ERROR(outputs[i]->write_all(coder.output(i, part), offset));
      }
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      SCR_RETURN_IF_ERROR(outputs[i]->truncate(length_of(lost[i])));
      SCR_RETURN_IF_ERROR(outputs[i]->sync());
      SCR_RETURN_IF_ERROR(outputs[i]->close());
    }
    return {};
  }

  // A container gets its name only if it is right.
  Status take(int position, const std::string& made, std::vector<std::string>& repaired) {
    SCR_RETURN_IF_ERROR(verify(position, made));
    SCR_RETURN_IF_ERROR(fs_.rename(made, directory_ + "/" + name_of(position)));
    repaired.push_back(name_of(position));
    return {};
  }

  FileSystem& fs_;
  const std::string& directory_;
  const Summary& summary_;
  const ContainerGroup& group_;
  const SegmentMap& segments_;
  int parities_;
  std::vector<int> good_;
  std::vector<int> lost_data_;
  std::vector<int> lost_parity_;
  Status first_;  // what is wrong with the first of the lost data containers
};

}  // namespace

Status verify_parity_containers(FileSystem& fs, const std::string& directory,
                                const Summary& summary, std::vector<std::string>& problems) {
  for (const ContainerGroup& group : groups_of(summary)) {
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
  for (const ContainerGroup& group : groups_of(summary)) {
    SCR_RETURN_IF_ERROR(GroupRepair(fs, directory, summary, group, segments).repair(repaired));
  }
  return repaired;
}

}  // namespace scr::flush
