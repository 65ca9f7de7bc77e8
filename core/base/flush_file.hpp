// The flush file: where each dataset of a job is, cache or prefix (SCR manual §9.4).
//
// The master process of each node keeps it in the control directory. At the end of an allocation it
// tells scr_scavenge, scr_clean and the like whether a dataset still has to be brought to the
// prefix. Format: docs/formats/flush.md. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash_file.hpp"

namespace scr {

inline constexpr std::string_view kFlushFileName = "flush.scrinfo";

struct FlushState {
  std::string name = {};   // of the dataset
  bool in_cache = false;   // a complete copy is in the cache
  bool in_prefix = false;  // a complete copy is in the prefix (PFS)
  bool flushing = false;   // a copy to the prefix has been started and has not ended
  bool is_checkpoint = false;
  bool is_output = false;  // must reach the prefix

  bool operator==(const FlushState&) const = default;
};

class FlushFile {
 public:
  // The state of a dataset, or nullptr.
  const FlushState* get(int dataset) const;
  FlushState* get(int dataset);
  // The state, made if there was none.
  FlushState& at(int dataset) { return datasets_[dataset]; }
  void remove(int dataset) { datasets_.erase(dataset); }

  bool empty() const { return datasets_.empty(); }
  std::vector<int> datasets() const;  // ids, ascending

  // The dataset is in the cache and not in the prefix; a copy that is on its way does not count.
  bool need_flush(int dataset) const;
  // The checkpoint with the greatest id that is in the cache.
  std::optional<int> latest_checkpoint() const;
  // What a job loses if its cache goes now: the latest checkpoint and every output, as far as they
  // need a flush. Ids, ascending.
  std::vector<int> datasets_to_save() const;

  Hash to_hash() const;
  static Result<FlushFile> from_hash(const Hash& hash);
  bool operator==(const FlushFile&) const = default;

 private:
  std::map<int, FlushState> datasets_;
};

// kNotFound if there is no such file.
Result<FlushFile> read_flush_file(FileSystem& fs, const At& at);
Status write_flush_file(FileSystem& fs, const At& at, const FlushFile& flush);

}  // namespace scr
