#include "flush/copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "core/base/checksum.hpp"
#include "core/base/file_checksum.hpp"
#include "core/base/holes.hpp"
#include "flush/pacer.hpp"

namespace scr::flush {

namespace {

// Read and checksummed at a time: what fits into a core's own cache, so that the bytes come from
// memory once.
constexpr std::size_t kCachePart = std::size_t{128} << 10U;
// Written before the device is told to begin, so that it works while we copy.
constexpr std::uint64_t kWriteBehind = std::uint64_t{8} << 20U;

class Copier {
 public:
  Copier(FileSystem& fs, const CopyOptions& options, CopyProgress& progress)
      : fs_(fs),
        options_(options),
        progress_(progress),
        buffer_(options.buffer),
        pacer_(options.bytes_per_second, options.percent, progress.cancel, options.clock) {}

  Status copy(CopyTask& task) {
    if (task.deleted && task.deleted()) return drop(task);
    SCR_ASSIGN_OR_RETURN(auto source,
                         task.open ? task.open() : fs_.open(task.source, OpenOptions::read()));
    SCR_ASSIGN_OR_RETURN(FileInfo info, source->info());
    if (info.size != task.size) {
      return corrupt(
          fmt::format("'{}' has {} bytes instead of {}", task.source, info.size, task.size));
    }
    std::uint64_t position = 0;
    std::uint32_t crc = 0;
    if (task.pieces.empty()) return {};
    for (CopyPiece& piece : task.pieces) {
      Status copied = copy_piece(*source, position, piece);
      if (copied.code() == StatusCode::kNotFound && task.unwanted && task.unwanted()) return {};
      SCR_RETURN_IF_ERROR(copied);
      crc = crc32_combine(crc, piece.crc, piece.length);
      position += piece.length;
    }
    if (!task.open && crc != task.crc) {
      return corrupt(fmt::format("'{}' has the checksum {} instead of {}", task.source,
                                 crc32_to_text(crc), crc32_to_text(task.crc)));
    }
    if (!task.open && task.pieces.size() == 1 && task.pieces.front().offset == 0) {
      SCR_RETURN_IF_ERROR(write_staged());
      keep_time(task, info);
    }
    return source->close();
  }

  // Durable, and errors of delayed writes noticed; the names too.
  Status finish() {
    SCR_RETURN_IF_ERROR(write_staged());
    for (auto& [name, file] : open_) file->start_writing(0, 0);
    if (options_.before_sync) SCR_RETURN_IF_ERROR(options_.before_sync());
    SCR_RETURN_IF_ERROR(close_all());
    for (const std::string& name : directories_) {
      Status status = fs_.sync_directory(name);
      // One that is gone is for who looks for the copies in it.
      if (status.code() != StatusCode::kNotFound) SCR_RETURN_IF_ERROR(status);
    }
    return {};
  }

 private:
  // What was there before it began, or of an earlier try, must not be taken for it.
  Status drop(const CopyTask& task) {
    for (const CopyPiece& piece : task.pieces)
      SCR_RETURN_IF_ERROR(fs_.remove_if_exists(piece.destination));
    return {};
  }

  // A copy is as old as what it is a copy of: of two files with one name the newer is known by its
  // time. Only a hint, so a file system without times does no harm.
  void keep_time(const CopyTask& task, const FileInfo& source) {
    const auto found = open_.find(task.pieces.front().destination);
    if (found != open_.end()) found->second->set_time(source.mtime_ns);
  }

  Status close_all() {
    SCR_RETURN_IF_ERROR(write_staged());
    staged_for_ = nullptr;
    for (auto& [name, file] : open_) {
      Status status = file->sync();
      if (status.ok()) status = file->close();
      if (!status.ok()) return give_up(name, *file, status);
    }
    open_.clear();
    return {};
  }

  // After a failed sync the system may hold data in memory that will never reach the device and
  // call the next sync a success: nobody must find it there and take it for a copy.
  Status give_up(const std::string& name, File& file, const Status& failure) {
    const Status removed = fs_.remove_if_exists(name);
    if (removed.ok()) return failure;
    const Status emptied = file.truncate(0);
    return emptied.ok() ? failure
                        : failure.with_context(fmt::format("remove '{}' before the next try: its "
                                                           "data may not be on the device",
                                                           name));
  }

  // Files written one after the other are synced as soon as the next begins; containers, which
  // several tasks share, stay open while they are written to.
  Result<File*> destination(const std::string& name) {
    if (auto found = open_.find(name); found != open_.end()) return found->second.get();
    SCR_RETURN_IF_ERROR(close_all());
    OpenOptions options = OpenOptions::read_write();
    options.create = true;
    options.mode = options_.mode;
    SCR_ASSIGN_OR_RETURN(auto file, fs_.open(name, options));
    File* result = file.get();
    open_[name] = std::move(file);
    directories_.insert(name.substr(0, name.rfind('/')));
    return result;
  }

  Status copy_piece(File& source, std::uint64_t position, CopyPiece& piece) {
    SCR_ASSIGN_OR_RETURN(File * target, destination(piece.destination));
    if (options_.resume) {
      SCR_ASSIGN_OR_RETURN(bool there, is_there(source, position, *target, piece));
      if (there) return {};
    }
    Crc32 crc;
    for (std::uint64_t done = 0; done < piece.length;) {
      if (progress_.cancel) return {StatusCode::kUnavailable, "the copy was cancelled"};
      SCR_ASSIGN_OR_RETURN(const auto room, room_for(*target, piece.offset + done));
      const auto length =
          static_cast<std::size_t>(std::min<std::uint64_t>(piece.length - done, room.size()));
      const std::span<std::byte> data = room.first(length);
      for (std::size_t part = 0; part < length; part += kCachePart) {
        const auto some = data.subspan(part, std::min(kCachePart, length - part));
        SCR_RETURN_IF_ERROR(source.read_exactly(some, position + done + part));
        crc.update(some);
      }
      staged_ += length;
      done += length;
      progress_.bytes_done += length;
      pacer_.pause(length);
      tell_progress();
    }
    piece.crc = crc.value();
    return {};
  }

  // Who is told may take the time for other work.
  void tell_progress() {
    if (!options_.progress) return;
    const double start = pacer_.now();
    options_.progress(progress_.bytes_done);
    pacer_.skip(pacer_.now() - start);
  }

  // Where the bytes at `offset` of a file are put before they are written. Bytes that follow each
  // other in a file, as those of many small files in a container do, are written together, up to
  // the next multiple of the buffer's size: all writes of a run but the first and the last are
  // large and aligned.
  Result<std::span<std::byte>> room_for(File& target, std::uint64_t offset) {
    const bool goes_on = staged_for_ == &target && staged_at_ + staged_ == offset;
    if (!goes_on || staged_ == capacity()) SCR_RETURN_IF_ERROR(write_staged());
    if (!goes_on) begun_ = offset;
    if (staged_ == 0) {
      staged_for_ = &target;
      staged_at_ = offset;
    }
    return std::span(buffer_).subspan(staged_, capacity() - staged_);
  }
  std::size_t capacity() const {
    return buffer_.size() - static_cast<std::size_t>(staged_at_ % buffer_.size());
  }

  Status write_staged() {
    if (staged_ == 0) return {};
    SCR_RETURN_IF_ERROR(
        write_with_holes(*staged_for_, std::span(buffer_).first(staged_), staged_at_));
    staged_at_ += staged_;
    staged_ = 0;
    if (staged_at_ - begun_ >= kWriteBehind) {
      staged_for_->start_writing(begun_, staged_at_ - begun_);
      begun_ = staged_at_;
    }
    return {};
  }

  // After a crash: the piece was written before, and both sides have the same checksum.
  Result<bool> is_there(File& source, std::uint64_t position, File& target, CopyPiece& piece) {
    SCR_ASSIGN_OR_RETURN(FileInfo info, target.info());
    if (info.size < piece.offset + piece.length) return false;
    SCR_RETURN_IF_ERROR(write_staged());  // the buffer is needed
    SCR_ASSIGN_OR_RETURN(std::uint32_t there,
                         checksum_range(target, piece.offset, piece.length, buffer_));
    SCR_ASSIGN_OR_RETURN(std::uint32_t here,
                         checksum_range(source, position, piece.length, buffer_));
    if (there != here) return false;
    piece.crc = here;
    progress_.bytes_done += piece.length;
    return true;
  }

  FileSystem& fs_;
  const CopyOptions& options_;
  CopyProgress& progress_;
  std::vector<std::byte> buffer_;
  File* staged_for_ = nullptr;   // the first staged_ bytes of the buffer belong there
  std::uint64_t staged_at_ = 0;  // in that file
  std::size_t staged_ = 0;
  std::uint64_t begun_ = 0;  // up to here the device knows of the run
  Pacer pacer_;
  std::map<std::string, std::unique_ptr<File>> open_;
  std::set<std::string> directories_;  // of all destinations
};

}  // namespace

Status copy_all(FileSystem& fs, std::vector<CopyTask>& tasks, const CopyOptions& options,
                CopyProgress& progress) {
  Copier copier(fs, options, progress);
  for (CopyTask& task : tasks) SCR_RETURN_IF_ERROR(copier.copy(task));
  return copier.finish();
}

}  // namespace scr::flush
