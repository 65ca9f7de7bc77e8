#include "flush/transfer_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/base/checksum.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr::flush {

namespace {

constexpr std::array<std::string_view, 3> kCommandNames = {"RUN", "STOP", "EXIT"};
constexpr std::array<std::string_view, 2> kStateNames = {"STOPPED", "RUNNING"};

template <typename Enum, std::size_t N>
Result<Enum> word(const Hash& hash, std::string_view key,
                  const std::array<std::string_view, N>& names) {
  SCR_ASSIGN_OR_RETURN(const std::string value, hash.require_value(key));
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end()) {
    return corrupt(fmt::format("key '{}' has the unknown value '{}'", key, text::escape(value)));
  }
  return static_cast<Enum>(found - names.begin());
}

Result<double> limit(const Hash& hash, std::string_view key, double most) {
  SCR_ASSIGN_OR_RETURN(const std::string value, hash.require_value(key));
  const auto number = text::parse_double(value);
  if (!number || *number < 0 || *number > most) {
    return corrupt(
        fmt::format("key '{}' has the value '{}', which is no limit", key, text::escape(value)));
  }
  return *number;
}

Result<int> small_number(const Hash& hash, std::string_view key, std::int64_t least,
                         std::int64_t most) {
  SCR_ASSIGN_OR_RETURN(const std::int64_t value, hash.require_int(key));
  if (value < least || value > most)
    return corrupt(fmt::format("key '{}' has the impossible value {}", key, value));
  return static_cast<int>(value);
}

Result<std::uint32_t> checksum(const Hash& hash) {
  SCR_ASSIGN_OR_RETURN(const std::string value, hash.require_value("CRC"));
  return crc32_from_text(value);
}

Result<std::string> absolute_path(std::string path) {
  if (path.empty() || path.front() != '/') {
    return corrupt(fmt::format("'{}' is not an absolute path", text::escape(path)));
  }
  SCR_RETURN_IF_ERROR(safe_relative_path(path.substr(1)).status());
  return path;
}

// One file that gets all bytes: the form of the SCR manual. Its checksum is that of the source.
bool is_plain(const CopyTask& task) {
  return task.pieces.size() == 1 && task.pieces[0].offset == 0 &&
         task.pieces[0].length == task.size;
}

Hash task_to_hash(const TransferTask& task, bool done) {
  Hash hash;
  if (is_plain(task.copy)) hash.set_value("DESTINATION", task.copy.pieces[0].destination);
  hash.set_value("SIZE", task.copy.size);
  hash.set_value("WRITTEN", task.written);
  hash.set_value("CRC", crc32_to_text(task.copy.crc));
  if (is_plain(task.copy)) return hash;
  for (std::size_t i = 0; i < task.copy.pieces.size(); ++i) {
    const CopyPiece& piece = task.copy.pieces[i];
    Hash& to = hash.at("PIECE").at(std::to_string(i));
    to.set_value("DESTINATION", piece.destination);
    to.set_value("OFFSET", piece.offset);
    to.set_value("LENGTH", piece.length);
    if (done) to.set_value("CRC", crc32_to_text(piece.crc));
  }
  return hash;
}

Result<CopyPiece> piece_from_hash(const Hash& hash, bool done) {
  CopyPiece piece;
  SCR_ASSIGN_OR_RETURN(std::string destination, hash.require_value("DESTINATION"));
  SCR_ASSIGN_OR_RETURN(piece.destination, absolute_path(std::move(destination)));
  SCR_ASSIGN_OR_RETURN(piece.offset, hash.require_uint("OFFSET"));
  SCR_ASSIGN_OR_RETURN(piece.length, hash.require_uint("LENGTH"));
  if (done) {
    SCR_ASSIGN_OR_RETURN(piece.crc, checksum(hash));
  }
  constexpr auto kLargestFile = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (piece.offset > kLargestFile || piece.length > kLargestFile - piece.offset) {
    return corrupt(fmt::format("{} bytes at {} are no part of a file", piece.length, piece.offset));
  }
  return piece;
}

Status read_pieces(const Hash& pieces, bool done, CopyTask& task) {
  std::uint64_t left = task.size;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Hash* hash = pieces.get(std::to_string(i));
    if (hash == nullptr) return corrupt(fmt::format("piece {} of {} is missing", i, pieces.size()));
    SCR_ASSIGN_OR_RETURN(CopyPiece piece, piece_from_hash(*hash, done));
    if (piece.length > left) return corrupt("its pieces are longer than the file");
    left -= piece.length;
    task.pieces.push_back(std::move(piece));
  }
  return {};
}

Result<TransferTask> task_from_hash(const std::string& source, const Hash& hash, bool done) {
  TransferTask task;
  SCR_ASSIGN_OR_RETURN(task.copy.source, absolute_path(source));
  SCR_ASSIGN_OR_RETURN(task.copy.size, hash.require_uint("SIZE"));
  SCR_ASSIGN_OR_RETURN(task.written, hash.require_uint("WRITTEN"));
  SCR_ASSIGN_OR_RETURN(task.copy.crc, checksum(hash));
  if (task.written > task.copy.size) return corrupt("more bytes are written than there are");
  if (hash.contains("DESTINATION")) {
    SCR_ASSIGN_OR_RETURN(std::string destination, hash.require_value("DESTINATION"));
    SCR_ASSIGN_OR_RETURN(destination, absolute_path(std::move(destination)));
    task.copy.pieces.push_back(
        {std::move(destination), 0, task.copy.size, done ? task.copy.crc : 0});
    return task;
  }
  if (const Hash* pieces = hash.get("PIECE"))
    SCR_RETURN_IF_ERROR(read_pieces(*pieces, done, task.copy));
  std::uint64_t bytes = 0;
  for (const CopyPiece& piece : task.copy.pieces) bytes += piece.length;
  if (bytes != task.copy.size) return corrupt("its pieces are shorter than the file");
  return task;
}

Hash transfer_to_hash(const Transfer& transfer) {
  Hash hash;
  hash.set_value("ID", transfer.dataset);
  hash.set_value("CREATED", transfer.created);
  hash.set_value("ATTEMPT", transfer.attempt);
  hash.set_value("RANK", transfer.rank);
  hash.set_value("PERCENT", fmt::format("{:.6f}", transfer.percent));
  hash.set_value("BW", fmt::format("{:.6f}", transfer.bytes_per_second));
  hash.set_value("MODE", transfer.mode);
  if (transfer.done) hash.set_value("FLAG", "DONE");
  if (!transfer.error.empty()) hash.set_value("ERROR", transfer.error);
  Hash& files = hash.at("FILES");
  for (const TransferTask& task : transfer.tasks)
    files.set(task.copy.source, task_to_hash(task, transfer.done));
  return hash;
}

Result<Transfer> transfer_from_hash(const Hash& hash) {
  Transfer transfer;
  SCR_ASSIGN_OR_RETURN(transfer.dataset,
                       small_number(hash, "ID", 1, std::numeric_limits<int>::max()));
  SCR_ASSIGN_OR_RETURN(transfer.created, hash.require_int("CREATED"));
  if (hash.contains("ATTEMPT")) {
    SCR_ASSIGN_OR_RETURN(transfer.attempt, hash.require_int("ATTEMPT"));
  }
  SCR_ASSIGN_OR_RETURN(transfer.rank,
                       small_number(hash, "RANK", 0, std::numeric_limits<int>::max()));
  SCR_ASSIGN_OR_RETURN(transfer.percent, limit(hash, "PERCENT", 100));
  SCR_ASSIGN_OR_RETURN(transfer.bytes_per_second,
                       limit(hash, "BW", std::numeric_limits<double>::max()));
  SCR_ASSIGN_OR_RETURN(const int mode, small_number(hash, "MODE", 0, 0777));
  transfer.mode = static_cast<mode_t>(mode);
  if (hash.contains("FLAG")) {
    SCR_ASSIGN_OR_RETURN(const std::string flag, hash.require_value("FLAG"));
    if (flag != "DONE") return corrupt(fmt::format("unknown flag '{}'", text::escape(flag)));
    transfer.done = true;
  }
  if (hash.contains("ERROR")) {
    SCR_ASSIGN_OR_RETURN(transfer.error, hash.require_value("ERROR"));
  }
  const Hash* files = hash.get("FILES");
  if (files == nullptr) return corrupt("key 'FILES' is missing");
  for (const Hash::Element& element : files->elements()) {
    auto task = task_from_hash(element.key, element.hash, transfer.done);
    if (!task.ok())
      return task.status().with_context(fmt::format("file '{}'", text::escape(element.key)));
    transfer.tasks.push_back(*std::move(task));
  }
  return transfer;
}

At file_at(const Directory& control) { return {control, std::string(kTransferFileName)}; }

Result<TransferFile> understand(const Hash& hash, const Directory& control) {
  if (hash.empty()) return TransferFile();
  auto file = TransferFile::from_hash(hash);
  if (file.ok()) return file;
  return file.status().with_context(
      fmt::format("'{}' is not a valid transfer file", file_at(control).display()));
}

}  // namespace

std::string Transfer::key() const { return fmt::format("{}.{}.{}", dataset, created, rank); }

std::uint64_t Transfer::written() const {
  std::uint64_t bytes = 0;
  for (const TransferTask& task : tasks) bytes += task.written;
  return bytes;
}

Transfer* TransferFile::find(std::string_view key) {
  const auto found = std::find_if(transfers.begin(), transfers.end(),
                                  [&](const Transfer& each) { return each.key() == key; });
  return found == transfers.end() ? nullptr : &*found;
}

void TransferFile::put(Transfer transfer) {
  remove(transfer.key());
  transfers.push_back(std::move(transfer));
}

void TransferFile::remove(std::string_view key) {
  std::erase_if(transfers, [&](const Transfer& each) { return each.key() == key; });
}

Hash TransferFile::to_hash() const {
  Hash hash;
  hash.set_value("COMMAND", kCommandNames[static_cast<std::size_t>(command)]);
  hash.set_value("STATE", kStateNames[static_cast<std::size_t>(state)]);
  Hash& all = hash.at("TRANSFER");
  for (const Transfer& transfer : transfers) all.set(transfer.key(), transfer_to_hash(transfer));
  return hash;
}

Result<TransferFile> TransferFile::from_hash(const Hash& hash) {
  TransferFile file;
  SCR_ASSIGN_OR_RETURN(file.command, word<TransferCommand>(hash, "COMMAND", kCommandNames));
  SCR_ASSIGN_OR_RETURN(file.state, word<TransferState>(hash, "STATE", kStateNames));
  const Hash* all = hash.get("TRANSFER");
  if (all == nullptr) return corrupt("key 'TRANSFER' is missing");
  for (const Hash::Element& element : all->elements()) {
    auto transfer = transfer_from_hash(element.hash);
    const std::string context = fmt::format("transfer '{}'", text::escape(element.key));
    if (!transfer.ok()) return transfer.status().with_context(context);
    if (transfer->key() != element.key)
      return corrupt(context + ": its key is not that of its content");
    file.transfers.push_back(*std::move(transfer));
  }
  return file;
}

Result<TransferFile> read_transfer_file(FileSystem& fs, const Directory& control) {
  // Files are replaced as a whole, so reading needs no lock.
  const auto hash = read_hash_file(fs, file_at(control));
  if (!hash.ok() && hash.status().code() == StatusCode::kNotFound) return TransferFile();
  if (!hash.ok()) return hash.status();
  return understand(*hash, control);
}

Status update_transfer_file(FileSystem& fs, const Directory& control,
                            const std::function<bool(TransferFile&)>& change) {
  SCR_ASSIGN_OR_RETURN(LockedHashFile locked,
                       LockedHashFile::open(fs, file_at(control), LockMode::kExclusive));
  SCR_ASSIGN_OR_RETURN(TransferFile file, understand(locked.hash(), control));
  if (!change(file)) return {};
  locked.hash() = file.to_hash();
  return locked.write(Durability::kVolatile);
}

}  // namespace scr::flush
