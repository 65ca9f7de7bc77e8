#include "core/runtime/file_mover.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <optional>
#include <thread>

#include "core/base/checksum.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"

namespace scr {

std::string moving_name(const std::string& file) { return path_beside(file, ".moving.", ""); }

namespace {

constexpr int kTag = 301;
constexpr std::size_t kPiecesInFlight = 3;

// One piece of one file of a stream.
struct Piece {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::size_t length = 0;
};

// Both sides cut the files of an entry into the same pieces.
std::vector<Piece> cut(const FilemapEntry& entry, std::size_t piece_size) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < entry.files.size(); ++i) {
    for (std::uint64_t offset = 0; offset < entry.files[i].size; offset += piece_size) {
      const std::uint64_t left = entry.files[i].size - offset;
      pieces.push_back(
          {i, offset, static_cast<std::size_t>(std::min<std::uint64_t>(left, piece_size))});
    }
  }
  return pieces;
}

struct Buffered {
  Request request;
  std::vector<std::byte> buffer;
  Piece piece;
};

// Sends the files of one rank, piece by piece. A file that cannot be read is sent as zeros: the
// receiver notices by its checksum, and nobody waits.
class Sender {
 public:
  Sender(Context& context, const FilemapEntry& entry, int to)
      : context_(context),
        entry_(entry),
        to_(to),
        pieces_(cut(entry, context.config().get_bytes("SCR_MPI_BUF_SIZE"))) {
    auto directory = context.fs().open_directory(entry.directory);
    if (directory.ok()) directory_ = std::move(*directory);
    failure_ = directory.status();
  }

  bool done() const { return next_ == pieces_.size() && in_flight_.empty(); }
  // The first read that failed.
  const Status& failure() const { return failure_; }

  // True if something moved.
  bool progress() {
    bool moved = false;
    while (!in_flight_.empty() && in_flight_.front().request.test()) {
      in_flight_.pop_front();
      moved = true;
    }
    while (next_ < pieces_.size() && in_flight_.size() < kPiecesInFlight) {
      start(pieces_[next_++]);
      moved = true;
    }
    return moved;
  }

 private:
  void start(const Piece& piece) {
    Buffered& slot = in_flight_.emplace_back();
    slot.buffer.resize(piece.length);
    Status status = read(piece, slot.buffer);
    if (!status.ok() && failure_.ok()) failure_ = status;
    slot.request = context_.world().start_send(slot.buffer, to_, kTag);
  }

  Status read(const Piece& piece, std::span<std::byte> buffer) {
    if (!directory_) return failure_;
    if (!file_ || open_index_ != piece.file) {
      const At at(*directory_, entry_.files[piece.file].file);
      SCR_ASSIGN_OR_RETURN(file_, context_.fs().open(at, OpenOptions::read()));
      open_index_ = piece.file;
    }
    return file_->read_exactly(buffer, piece.offset);
  }

  Context& context_;
  const FilemapEntry& entry_;
  int to_;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
  std::deque<Buffered> in_flight_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<File> file_;
  std::size_t open_index_ = 0;
  Status failure_;
};

// Receives the files of the own rank. After a failure it goes on receiving, so that the sender can
// finish.
class Receiver {
 public:
  Receiver(Context& context, const IncomingFiles& incoming)
      : context_(context),
        incoming_(incoming),
        pieces_(cut(incoming.entry, context.config().get_bytes("SCR_MPI_BUF_SIZE"))) {
    status_ = open();
  }

  bool done() const { return finished_ == pieces_.size(); }

  bool progress() {
    bool moved = false;
    while (next_ < pieces_.size() && in_flight_.size() < kPiecesInFlight) {
      Buffered& slot = in_flight_.emplace_back();
      slot.piece = pieces_[next_++];
      slot.buffer.resize(slot.piece.length);
      slot.request = context_.world().start_receive(slot.buffer, incoming_.from, kTag);
      moved = true;
    }
    while (!in_flight_.empty() && in_flight_.front().request.test()) {
      if (status_.ok()) status_ = write(in_flight_.front());
      in_flight_.pop_front();
      ++finished_;
      moved = true;
    }
    return moved;
  }

  // Verifies all and gives the files their names.
  Status finish() {
    for (std::size_t i = 0; status_.ok() && i < files_.size(); ++i) status_ = verify_and_close(i);
    for (const FileMeta& meta : incoming_.entry.files) {
      if (!directory_) break;
      const At temporary(*directory_, moving_name(meta.file));
      if (status_.ok()) {
        status_ = context_.fs().rename(temporary, At(*directory_, meta.file));
      } else {
        (void)context_.fs().remove_if_exists(temporary);
      }
    }
    return status_;
  }

 private:
  Status open() {
    FileSystem& fs = context_.fs();
    SCR_RETURN_IF_ERROR(fs.make_directories(incoming_.entry.directory, 0700));
    SCR_ASSIGN_OR_RETURN(directory_, fs.open_directory(incoming_.entry.directory));
    for (const FileMeta& meta : incoming_.entry.files) {
      if (std::string parent = parent_of(meta.file); !parent.empty()) {
        SCR_RETURN_IF_ERROR(fs.make_directories(At(*directory_, parent), 0700));
      }
      const At at(*directory_, moving_name(meta.file));
      SCR_ASSIGN_OR_RETURN(auto file, fs.open(at, OpenOptions::create_truncate()));
      files_.push_back(std::move(file));
    }
    checksums_.resize(files_.size());
    return {};
  }

  Status write(const Buffered& slot) {
    checksums_[slot.piece.file].update(slot.buffer);
    return files_[slot.piece.file]->write_all(slot.buffer, slot.piece.offset);
  }

  Status verify_and_close(std::size_t i) {
    const FileMeta& meta = incoming_.entry.files[i];
    if (meta.mtime_ns) files_[i]->set_time(*meta.mtime_ns);
    SCR_RETURN_IF_ERROR(files_[i]->close());
    if (meta.crc && *meta.crc != checksums_[i].value()) {
      return corrupt(fmt::format("'{}' of rank {} arrived from rank {} with a wrong checksum",
                                 meta.file, context_.rank(), incoming_.from));
    }
    return {};
  }

  Context& context_;
  const IncomingFiles& incoming_;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
  std::size_t finished_ = 0;
  std::deque<Buffered> in_flight_;
  std::unique_ptr<Directory> directory_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<Crc32> checksums_;
  Status status_;
};

using Identity = std::pair<dev_t, ino_t>;

// Which files the names of an entry stand for now; none for one that is not there.
std::vector<std::optional<Identity>> identities(FileSystem& fs, const FilemapEntry& entry) {
  std::vector<std::optional<Identity>> all;
  for (const FileMeta& meta : entry.files) {
    const auto info = fs.info(entry.directory + "/" + meta.file);
    all.push_back(info.ok() ? std::optional(Identity(info->device, info->inode)) : std::nullopt);
  }
  return all;
}

void run(std::vector<Sender>& senders, std::optional<Receiver>& receiver) {
  std::size_t sending = 0;  // one rank's files at a time
  while (sending < senders.size() || (receiver && !receiver->done())) {
    bool moved = receiver && receiver->progress();
    if (sending < senders.size()) {
      moved = senders[sending].progress() || moved;
      if (senders[sending].done()) {
        ++sending;
        moved = true;
      }
    }
    if (!moved) std::this_thread::yield();
  }
}

}  // namespace

Status move_files(Context& context, Cache& cache, int dataset,
                  const std::vector<OutgoingFiles>& outgoing,
                  const std::optional<IncomingFiles>& incoming) {
  Status status;
  if (incoming) {
    status = cache.update(context.rank(), dataset,
                          [&](FilemapEntry& entry) { entry = incoming->entry; });
  }
  std::vector<Sender> senders;
  senders.reserve(outgoing.size());
  std::map<int, std::vector<std::optional<Identity>>> sent_files;
  for (const OutgoingFiles& out : outgoing) {
    const FilemapEntry& entry = *cache.filemap().get(out.rank, dataset);
    senders.emplace_back(context, entry, out.rank);
    sent_files[out.rank] = identities(context.fs(), entry);
  }
  std::optional<Receiver> receiver;
  if (incoming) receiver.emplace(context, *incoming);
  run(senders, receiver);
  if (receiver) {
    Status received = receiver->finish();
    if (status.ok()) status = received;
  }
  Status sent;
  for (const Sender& sender : senders) {
    if (sent.ok()) sent = sender.failure();
  }

  // Acknowledge; the sender's copy goes only now.
  std::vector<RankMessage> acknowledgements;
  if (incoming && status.ok()) acknowledgements.push_back({incoming->from, {}});
  for (const RankMessage& acknowledged :
       context.world().sparse_exchange(std::move(acknowledgements))) {
    // If the names now stand for other files, sender and receiver have one storage, and these are
    // the receiver's.
    const FilemapEntry* entry = cache.filemap().get(acknowledged.rank, dataset);
    const bool own =
        entry != nullptr && identities(context.fs(), *entry) == sent_files[acknowledged.rank];
    SCR_RETURN_IF_ERROR(own ? cache.remove_entry(acknowledged.rank, dataset)
                            : cache.forget(acknowledged.rank, dataset));
  }
  return status.ok() ? sent : status;
}

}  // namespace scr
