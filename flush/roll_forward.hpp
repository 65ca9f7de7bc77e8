// Flushes that were cut, or failed, after their summary was written: all data is there, so they are
// ended, by whoever comes next. One process at a time does this; nothing here is collective.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/dataset.hpp"
#include "core/base/filesystem.hpp"
#include "flush/summary.hpp"
#include "flush/supersede.hpp"

namespace scr::flush {

class Index;
struct IndexEntry;

// Ends flushes that were cut after their summary was written, the newest first: renames what still
// has its temporary name, adds the dataset to the index, unless a newer one there has the same
// names. Ends deletions that were cut, too. `rolled` gets the names of the datasets.
Status roll_forward(FileSystem& fs, const std::string& prefix, std::vector<std::string>* rolled);
// Ends a flush of this very dataset that was committed and not indexed. False if there is none.
Result<bool> roll_forward_dataset(FileSystem& fs, const std::string& prefix,
                                  const DatasetDescriptor& dataset);

// A flush that was committed and is not in the index: it was cut there, or failed.
struct Unended {
  std::string directory;  // below .scr
  DatasetDescriptor dataset;
};
// All of them, the newest first.
Result<std::vector<Unended>> find_unended(FileSystem& fs, const std::string& prefix,
                                          const Index& index);
// Ends one: gives its files their names, adds it to the index. Where a newer dataset of the index
// has the same names, that one's files stay, and this dataset goes as if it had been ended before:
// false. It is not called complete if one of its files is not there.
Result<bool> roll_forward_directory(FileSystem& fs, const std::string& prefix,
                                    const std::string& directory_name);

// Ends a committed flush whose files have their names: adds the dataset to the index, removes what
// is left of those it supersedes, and the intent. Where the intent is gone already another process
// has ended the flush; the index stays as it is then, for the dataset may have left it since.
Status end_flush(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                 const Summary& summary, const std::vector<Superseded>& superseded);
// What the flush of a dataset of the index has left to do, if it was cut, or failed, at the very
// last step. To be done before the dataset leaves the index: with its intent, a later start would
// take it for one to be ended, and bring it back.
Status end_last_step(FileSystem& fs, const std::string& prefix, const IndexEntry& entry);

// Ends all that flushes of datasets which are about to leave the index have left to do, so that
// they do not come back: those that were committed and did not reach the index, too.
Status end_flushes_of(FileSystem& fs, const std::string& prefix,
                      const std::function<bool(const DatasetDescriptor&)>& leaving);

// Adds a dataset that is whole in the prefix directory to the index, and makes it current if it is
// complete and not older than the current one.
Status add_to_index(FileSystem& fs, const std::string& prefix, const std::string& directory_name,
                    const Summary& summary);

}  // namespace scr::flush
