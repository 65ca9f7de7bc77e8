#include "flush/flush.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/checksum.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/index.hpp"
#include "flush/roll_forward.hpp"

namespace scr::flush {

namespace {

constexpr int kTurnTag = 411;

}  // namespace

std::string temporary_ending(const std::string& name) {
  const std::size_t start = name.rfind(".scr-");
  if (!name.starts_with('.') || !name.ends_with(".tmp") || start == std::string::npos) return {};
  const std::string_view numbers =
      std::string_view(name).substr(start + 5, name.size() - start - 9);
  const std::size_t dash = numbers.find('-');
  const bool sound =
      dash != std::string_view::npos && dash > 0 && dash + 1 < numbers.size() &&
      numbers.substr(0, dash).find_first_not_of("0123456789") == std::string::npos &&
      numbers.substr(dash + 1).find_first_not_of("0123456789abcdef") == std::string::npos;
  return sound ? name.substr(start) : std::string();
}

std::string temporary_name(const std::string& file, const DatasetDescriptor& dataset) {
  constexpr std::size_t kLongestName = 255;
  const std::size_t slash = file.rfind('/');
  const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
  const std::string suffix = fmt::format(".scr-{}-{:x}.tmp", dataset.id, dataset.created);
  std::string name = file.substr(start);
  if (name.size() + suffix.size() + 1 > kLongestName) {
    const std::uint32_t crc = crc32(std::as_bytes(std::span(name)));
    name = fmt::format("{}.{}.{:08x}", name.substr(0, kLongestName / 2), name.size(), crc);
  }
  return fmt::format("{}.{}{}", file.substr(0, start), name, suffix);
}

std::vector<CopyPiece> places_of(const StoredFile& file, const DatasetDescriptor& dataset,
                                 const std::string& prefix, const std::string& directory) {
  if (!file.contained()) {
    return {{prefix + "/" + temporary_name(file.file, dataset), 0, file.size, 0}};
  }
  std::vector<CopyPiece> pieces;
  for (const Segment& segment : file.segments) {
    pieces.push_back({directory + "/" + temporary_name(segment.file, dataset), segment.offset,
                      segment.length, 0});
  }
  return pieces;
}

// --- copy

Status Flush::sync_plan() {
  if (plan_synced_) return {};
  if (rank_ == 0) SCR_RETURN_IF_ERROR(sync_intent(fs_, directory()));
  SCR_RETURN_IF_ERROR(sync_rank2file(fs_, directory(), rank_));
  if (rank_ == 0) SCR_RETURN_IF_ERROR(fs_.sync_directory(prefix_ + "/.scr"));
  plan_synced_ = true;
  return {};
}

void Flush::copy() {
  try {
    CopyOptions options = options_.copy;
    options.before_sync = [this] { return sync_plan(); };
    copy_status_ = copy_all(fs_, tasks_, options, progress_);
  } catch (const std::exception& error) {
    copy_status_ = internal_error(error.what());
  }
  copied_ = true;
}

Status Flush::adopt_copies(const std::vector<CopyTask>& copied) {
  const auto same_place = [](const CopyPiece& a, const CopyPiece& b) {
    return a.destination == b.destination && a.offset == b.offset && a.length == b.length;
  };
  const auto same_task = [&](const CopyTask& a, const CopyTask& b) {
    return a.source == b.source && a.size == b.size && a.crc == b.crc &&
           std::ranges::equal(a.pieces, b.pieces, same_place);
  };
  if (!std::ranges::equal(tasks_, copied, same_task))
    return corrupt("other files were copied than those of the flush");
  for (const CopyTask& task : copied) {
    if (task.open) return internal_error("a shared file was copied by another process");
    std::uint32_t crc = 0;
    for (const CopyPiece& piece : task.pieces) crc = crc32_combine(crc, piece.crc, piece.length);
    if (crc != task.crc)
      return corrupt(fmt::format("the copy of '{}' has a wrong checksum", task.source));
  }
  tasks_ = copied;
  progress_.bytes_done = bytes_total_;
  copied_ = true;
  return {};
}

// A sliding window: each rank starts when the rank `width` before it has ended.
void Flush::copy_in_turns(Communicator& world) {
  const int width = std::max(options_.width, 1);
  if (world.rank() >= width) world.receive({}, world.rank() - width, kTurnTag);
  copy();
  if (world.rank() + width < world.size()) world.send({}, world.rank() + width, kTurnTag);
}

// --- finish

// The owner of each file learns the checksums of its pieces.
Status Flush::collect_shared_checksums(Communicator& world) {
  const std::span<const CopyTask> done = std::span(tasks_).last(regions_.size());
  SCR_ASSIGN_OR_RETURN(const auto pieces, collect_replayed(world, regions_, done));
  return add_checksums(pieces, files_);
}

// Like copies, they are as old as what they are made of, so that of two versions the newer is
// known.
Status Flush::set_shared_times() {
  if (summary_.containers) return {};
  for (const auto& [file, time] : shared_times_) {
    auto made = fs_.open(prefix_ + "/" + temporary_name(file, dataset_), OpenOptions::read_write());
    if (made.status().code() == StatusCode::kNotFound && has_left(file)) continue;
    SCR_RETURN_IF_ERROR(made.status());
    (*made)->set_time(time);
    SCR_RETURN_IF_ERROR((*made)->close());
  }
  return {};
}

// The checksums of segments, from the process that copied them to the ranks that own the files.
Status Flush::collect_segment_checksums(Communicator& node) {
  Hash send;
  for (std::size_t t = 0; t < task_owner_.size(); ++t) {
    Hash& file = send.at(std::to_string(task_owner_[t])).at(std::to_string(task_file_[t]));
    for (const CopyPiece& piece : tasks_[t].pieces)
      file.at(std::to_string(file.size())).set_value("CRC", piece.crc);
  }
  Hash receive;
  SCR_RETURN_IF_ERROR(exchange_hashes(node, send, receive));
  const Hash* mine = receive.get("0");
  for (std::size_t f = 0; f < files_.size(); ++f) {
    if (files_[f].shared) continue;
    for (std::size_t s = 0; s < files_[f].segments.size(); ++s) {
      const Hash* crc = mine ? mine->getf("%zu %zu", f, s) : nullptr;
      if (crc == nullptr) return internal_error("a segment was copied without a checksum");
      SCR_ASSIGN_OR_RETURN(std::uint64_t value, crc->require_uint("CRC"));
      files_[f].segments[s].crc = static_cast<std::uint32_t>(value);
    }
  }
  return {};
}

ParityWriter Flush::parity_writer() const {
  std::vector<std::string> data;
  std::vector<std::string> parity;
  for (std::uint64_t i = 0; i < summary_.container_count; ++i) {
    data.push_back(directory() + "/" + temporary_name(container_name(i), dataset_));
  }
  for (std::uint64_t i = 0; i < parity_container_count(summary_); ++i) {
    parity.push_back(directory() + "/" + temporary_name(parity_container_name(i), dataset_));
  }
  return {fs_, summary_, std::move(data), std::move(parity)};
}

void Flush::encode() {
  try {
    parity_.emplace(parity_writer());
    const double share = parity_->share_of(rank_, ranks_);
    Pacer pacer(bandwidth_ * share, options_.copy.percent, progress_.cancel, options_.copy.clock);
    encode_status_ = parity_->write_share(rank_, ranks_, &pacer);
  } catch (const std::exception& error) {
    encode_status_ = internal_error(error.what());
  }
  encoded_ = true;
}

Status Flush::collect_parity(Communicator& world) {
  if (summary_.container_parity == 0) return {};
  if (!encoded_) encode();
  SCR_ASSIGN_OR_RETURN(summary_.parity_crcs, parity_->collect(world, encode_status_));
  return {};
}

bool Flush::was_deleted(const std::string& file) const {
  if (!options_.keep_newer || options_.containers) return false;
  return flush::was_deleted(fs_, prefix_, file, dataset_);
}

bool Flush::has_left(const std::string& file) const {
  if (!options_.keep_newer || options_.containers) return false;
  return was_let_go(fs_, prefix_, file, dataset_);
}

// Own files, and with containers a share of the containers, get their final names. False if one of
// them was not waiting for it any more.
Result<bool> Flush::rename_own(Communicator& world) {
  bool all_waited = true;
  std::set<std::string> directories;
  auto rename = [&](const std::string& base, const std::string& file) -> Status {
    directories.insert(parent_of(base + "/" + file));
    SCR_ASSIGN_OR_RETURN(const bool waited,
                         put_in_place(fs_, base, file, dataset_, options_.keep_newer));
    all_waited = all_waited && (waited || has_left(file));
    return {};
  };
  if (!summary_.containers) {
    for (const StoredFile& file : files_) SCR_RETURN_IF_ERROR(rename(prefix_, file.file));
  } else {
    const auto ranks = static_cast<std::uint64_t>(world.size());
    for (auto i = static_cast<std::uint64_t>(world.rank()); i < summary_.container_count;
         i += ranks) {
      SCR_RETURN_IF_ERROR(rename(directory(), container_name(i)));
    }
    for (auto i = static_cast<std::uint64_t>(world.rank()); i < parity_container_count(summary_);
         i += ranks) {
      SCR_RETURN_IF_ERROR(rename(directory(), parity_container_name(i)));
    }
  }
  for (const std::string& name : directories) {
    Status status = fs_.sync_directory(name);
    if (status.code() != StatusCode::kNotFound) SCR_RETURN_IF_ERROR(status);
  }
  return all_waited;
}

// Another process that shares the prefix directory has been ending this flush, or somebody has
// removed files: looks what came of it, and does what is left.
Status Flush::end_with_others() {
  const Status ended = roll_forward_directory(fs_, prefix_, directory_name_).status();
  // Gone: it was ended, and perhaps replaced by a newer dataset since.
  if (ended.code() == StatusCode::kNotFound) return {};
  SCR_RETURN_IF_ERROR(ended);
  SCR_ASSIGN_OR_RETURN(const Index index, read_index(fs_, prefix_));
  const IndexEntry* entry = index.find_directory(directory_name_);
  if (entry == nullptr || entry->complete) return {};
  return corrupt(fmt::format("files of dataset {} ('{}') vanished before they got their names",
                             dataset_.id, dataset_.name));
}

// From the summary on, this flush will be completed, by this run or a later one; so what it
// replaces may go, and leaves the index before the first of its files does.
Status Flush::commit() {
  if (!intent_.superseded.empty()) {
    SCR_RETURN_IF_ERROR(write_intent(fs_, directory(), intent_, Durability::kDurable));
  }
  SCR_RETURN_IF_ERROR(write_summary(fs_, directory(), summary_));
  return drop_from_index(fs_, prefix_, intent_.superseded);
}

Status Flush::finish(Communicator& world, Communicator& node) {
  if (done_) return {};
  if (copy_status_.ok()) copy_status_ = sync_plan();
  SCR_RETURN_IF_ERROR(agree_all(world, copy_status_, "copying to the prefix directory"));
  if (any_shared_) {
    SCR_RETURN_IF_ERROR(agree_all(world, collect_shared_checksums(world), "collecting checksums"));
    SCR_RETURN_IF_ERROR(agree_all(world, set_shared_times(), "setting the times of shared files"));
  }
  if (summary_.containers) {
    SCR_RETURN_IF_ERROR(agree_all(world, collect_segment_checksums(node), "collecting checksums"));
    SCR_RETURN_IF_ERROR(agree_all(world, collect_parity(world), "writing parity containers"));
  } else {
    auto superseded = find_superseded(world, fs_, prefix_, dataset_, files_, options_.keep_newer);
    if (superseded.status().code() == StatusCode::kFailedPrecondition) abandon(world);
    if (!superseded.ok()) return superseded.status();
    intent_.superseded = std::move(*superseded);
  }
  if (summary_.containers || any_shared_) {
    SCR_RETURN_IF_ERROR(write_rank2file(world, fs_, directory(), files_));
  }
  Status status;
  if (world.rank() == 0) status = commit();
  SCR_RETURN_IF_ERROR(agree_all(world, status, "writing the summary"));
  const auto all_waited = rename_own(world);
  SCR_RETURN_IF_ERROR(agree_all(world, all_waited.status(), "renaming flushed files"));
  const bool undisturbed = world.all_true(*all_waited);
  if (world.rank() == 0) {
    status = undisturbed ? end_flush(fs_, prefix_, directory_name_, summary_, intent_.superseded)
                         : end_with_others();
  }
  return agree_all(world, status, "updating the index");
}

void Flush::abandon(Communicator& world) {
  for (const CopyTask& task : tasks_) {
    for (const CopyPiece& piece : task.pieces) (void)fs_.remove_if_exists(piece.destination);
  }
  world.barrier();
  if (world.rank() == 0) {
    Status status = remove_dataset_directory(fs_, prefix_, directory_name_);
    if (!status.ok()) log::warning("{}", status.message());
  }
}

}  // namespace scr::flush
