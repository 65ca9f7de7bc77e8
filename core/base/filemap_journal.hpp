// The journal beside a filemap: files that were registered since the filemap was written.
//
// A program that registers many files must not rewrite its filemap for each of them, so a new file
// is appended here, before it is created, as a record with a checksum of its own. The next write of
// the filemap holds these files too, and the journal goes. read_filemap() puts both together.
// Format: docs/formats/filemap.md, "Journal". Not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/base/filemap.hpp"

namespace scr {

// The journal of a filemap file lies beside it.
inline constexpr std::string_view kJournalEnd = ".journal";
At journal_of(const At& filemap);

Result<std::vector<std::byte>> encode_journal_record(int rank, int dataset, const FileMeta& meta);

// Adds the files of a journal to the filemap it belongs to; returns the length of the records that
// were read. What follows, from the first record that is not whole, is ignored: a process was
// killed while it wrote it, so that file was not created. A record about an entry that is not
// there, or whose list of files is closed, or about a file that is listed, was written before the
// filemap was, and changes nothing. Any bytes are safe.
std::size_t apply_journal(std::span<const std::byte> bytes, Filemap& filemap);

class FilemapJournal {
 public:
  // Appends a record. A failure leaves the journal as it was, or unusable until drop().
  Status append(FileSystem& fs, const At& filemap, int rank, int dataset, const FileMeta& meta);
  // The filemap has been written: the records are of no more use.
  void drop(FileSystem& fs, const At& filemap);
  std::uint64_t size() const { return size_; }

 private:
  std::unique_ptr<File> file_;
  std::uint64_t size_ = 0;
  bool broken_ = false;  // its end may not be whole
};

}  // namespace scr
