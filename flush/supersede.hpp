// Datasets whose files a flush replaces: a program that writes restart.h5 again at each step has,
// once the new one is in the prefix directory, nothing left there of the step before.
//
// Such an older dataset leaves the index when the new one is committed (its summary is durable) and
// before the first of its files is replaced, and its directory below .scr goes when the new one is
// in the index. The flush's intent lists it, so that roll_forward() does the same after a crash.
//
// A dataset that is committed but not in the index, because its flush failed at the very end, is
// one of those: it would be ended later, over the files of the new one. So it is ended first.
#pragma once

#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"
#include "core/mpi/communicator.hpp"
#include "flush/rank2file.hpp"

namespace scr::flush {

struct Superseded {
  std::string directory;     // below .scr
  std::int64_t created = 0;  // of the dataset there, which tells it from a later one
  bool operator==(const Superseded&) const = default;
};

// Which of two datasets was written later. Not by their ids: processes that work alone count on
// from what each of them has found in the index.
bool is_newer(const DatasetDescriptor& dataset, const DatasetDescriptor& than);

// Collective. Which datasets of the index list a file that is about to be replaced by one of
// `mine`; on rank 0, empty elsewhere. Those that are committed and not in the index yet are brought
// there. Looks no further if no such file exists, and all that is committed is in the index.
// kFailedPrecondition if one of them is newer than `dataset`: an old checkpoint must not take the
// place of a new one. With `keep_newer` the times of the files decide instead, as in
// put_in_place(): a file that stays is not replaced.
Result<std::vector<Superseded>> find_superseded(Communicator& world, FileSystem& fs,
                                                const std::string& prefix,
                                                const DatasetDescriptor& dataset,
                                                const RankFiles& mine, bool keep_newer = false);

// Gives a flushed file its name in `base`. With `keep_newer` a file there that was written anew
// since, past the cache, stays, and the flushed one goes, as does one that the program has deleted
// or replaced since. Durable once the directory is synced. False if the file does not wait under
// its temporary name: another process that ends the same flush was faster.
Result<bool> put_in_place(FileSystem& fs, const std::string& base, const std::string& file,
                          const DatasetDescriptor& dataset, bool keep_newer);

// Where `keep_newer` holds: the program has deleted a file of the dataset since.
bool was_deleted(FileSystem& fs, const std::string& prefix, const std::string& file,
                 const DatasetDescriptor& dataset);
// The program has deleted or renamed it, and perhaps its directory with what waited in it; there
// may be a newer one.
bool was_let_go(FileSystem& fs, const std::string& prefix, const std::string& file,
                const DatasetDescriptor& dataset);

// Takes them out of the index. Not collective; may be done again.
Status drop_from_index(FileSystem& fs, const std::string& prefix,
                       const std::vector<Superseded>& superseded);
// Removes their directories, unless the index has them again. Not collective; may be done again.
Status remove_directories_of(FileSystem& fs, const std::string& prefix,
                             const std::vector<Superseded>& superseded);

}  // namespace scr::flush
