// Fuzzes transfer files behind the checksum of their file: what is accepted names absolute paths
// without "..", has pieces that add up to their file, and comes back from its own hash.
#include <cstdlib>

#include "core/base/path.hpp"
#include "flush/transfer_file.hpp"

namespace {

void check_path(const std::string& path) {
  if (path.empty() || path.front() != '/') std::abort();
  if (!scr::safe_relative_path(path.substr(1)).ok()) std::abort();
}

void check_task(const scr::flush::TransferTask& task) {
  check_path(task.copy.source);
  if (task.written > task.copy.size) std::abort();
  std::uint64_t left = task.copy.size;
  for (const auto& piece : task.copy.pieces) {
    check_path(piece.destination);
    if (piece.length > left) std::abort();
    left -= piece.length;
  }
  if (left != 0) std::abort();
}

void check_transfer(scr::flush::TransferFile& file, const scr::flush::Transfer& transfer) {
  if (transfer.dataset < 1 || transfer.rank < 0 || (transfer.mode & ~mode_t{0777}) != 0) {
    std::abort();
  }
  if (!(transfer.percent >= 0 && transfer.percent <= 100)) std::abort();
  if (!(transfer.bytes_per_second >= 0)) std::abort();
  if (file.find(transfer.key()) != &transfer) std::abort();
  for (const auto& task : transfer.tasks) check_task(task);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  auto file = scr::flush::TransferFile::from_hash(*hash);
  if (!file.ok()) return 0;
  for (const auto& transfer : file->transfers) check_transfer(*file, transfer);
  // Numbers are rounded when they are written, so it is the hash that must stay as it is.
  const scr::Hash written = file->to_hash();
  const auto again = scr::flush::TransferFile::from_hash(written);
  if (!again.ok() || !(again->to_hash() == written)) std::abort();
  return 0;
}
