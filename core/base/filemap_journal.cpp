#include "core/base/filemap_journal.hpp"

#include <limits>
#include <unordered_set>

#include "core/base/path.hpp"

namespace scr {
namespace {

constexpr const char* kRank = "RANK";
constexpr const char* kDataset = "DSET";
constexpr const char* kMeta = "META";

struct Record {
  int rank = 0;
  int dataset = 0;
  FileMeta meta;
};

Result<int> small_number(const Hash& hash, const char* key) {
  SCR_ASSIGN_OR_RETURN(const std::int64_t number, hash.require_int(key));
  if (number < 0 || number > std::numeric_limits<int>::max()) {
    return corrupt(std::string("key '") + key + "' is out of range");
  }
  return static_cast<int>(number);
}

Result<Record> record_from_hash(const Hash& hash) {
  Record record;
  SCR_ASSIGN_OR_RETURN(record.rank, small_number(hash, kRank));
  SCR_ASSIGN_OR_RETURN(record.dataset, small_number(hash, kDataset));
  const Hash* meta = hash.get(kMeta);
  if (meta == nullptr) return corrupt("key 'META' is missing");
  SCR_ASSIGN_OR_RETURN(record.meta, FileMeta::from_hash(*meta));
  if (const auto path = safe_relative_path(record.meta.file); !path.ok()) return path.status();
  return record;
}

// Adds files to entries without searching the whole list for each of them.
class Adder {
 public:
  explicit Adder(Filemap& filemap) : filemap_(filemap) {}

  void add(Record record) {
    FilemapEntry* entry = filemap_.get(record.rank, record.dataset);
    if (entry == nullptr || entry->expected_files >= 0) return;
    if (entry != entry_) {
      entry_ = entry;
      names_.clear();
      for (const FileMeta& meta : entry->files) names_.insert(meta.file);
    }
    if (names_.insert(record.meta.file).second) entry->files.push_back(std::move(record.meta));
  }

 private:
  Filemap& filemap_;
  FilemapEntry* entry_ = nullptr;
  std::unordered_set<std::string> names_;  // that the entry lists
};

}  // namespace

At journal_of(const At& filemap) {
  At journal = filemap;
  journal.path += kJournalEnd;
  return journal;
}

Result<std::vector<std::byte>> encode_journal_record(int rank, int dataset, const FileMeta& meta) {
  Hash hash;
  hash.set_value(kRank, rank);
  hash.set_value(kDataset, dataset);
  hash.set(kMeta, meta.to_hash());
  return encode_hash_file(hash);
}

std::size_t apply_journal(std::span<const std::byte> bytes, Filemap& filemap) {
  Adder adder(filemap);
  std::size_t done = 0;
  while (done < bytes.size()) {
    std::size_t length = 0;
    const auto hash = decode_hash_file_prefix(bytes.subspan(done), "journal", length);
    if (!hash.ok()) break;
    auto record = record_from_hash(*hash);
    if (!record.ok()) break;
    adder.add(*std::move(record));
    done += length;
  }
  return done;
}

Status FilemapJournal::append(FileSystem& fs, const At& filemap, int rank, int dataset,
                              const FileMeta& meta) {
  if (broken_) return failed_precondition("the journal of '" + filemap.display() + "' is broken");
  SCR_ASSIGN_OR_RETURN(const auto record, encode_journal_record(rank, dataset, meta));
  if (file_ == nullptr) {
    OpenOptions options = OpenOptions::create_truncate();
    options.mode = 0600;
    SCR_ASSIGN_OR_RETURN(file_, fs.open(journal_of(filemap), options));
    size_ = 0;
  }
  // Nothing may be written behind a record that is not whole: it would never be read.
  if (Status written = file_->write_all(record, size_); !written.ok()) {
    broken_ = true;
    return written;
  }
  size_ += record.size();
  return {};
}

void FilemapJournal::drop(FileSystem& fs, const At& filemap) {
  if (file_ == nullptr) return;
  // One that stays says nothing that the filemap does not say.
  (void)fs.remove_if_exists(journal_of(filemap));
  file_.reset();
  size_ = 0;
  broken_ = false;
}

}  // namespace scr
