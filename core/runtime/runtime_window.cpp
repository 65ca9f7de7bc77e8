// Windows: datasets of programs that do not know of h5scr (see runtime.hpp).
#include <fmt/format.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/runtime/restart_elsewhere.hpp"
#include "core/runtime/runtime.hpp"
#include "core/shared_file/log.hpp"
#include "flush/flush.hpp"

namespace scr {

Status Runtime::open_window() {
  SCR_RETURN_IF_ERROR(announce("", kFlagNone));
  Status status = begin_writing();
  if (!status.ok()) {
    close_window();
    return status;
  }
  return {};
}

Status Runtime::seal_window(const std::string& name, int flags, bool valid) {
  Context& c = *context_;
  const std::int64_t none = c.size();
  const std::int64_t first = c.world().all_reduce(name.empty() ? none : c.rank(), ReduceOp::kMin);
  DatasetDescriptor& dataset = writing_->dataset;
  if (first != none) dataset.name = c.world().broadcast_string(name, static_cast<int>(first));
  // One name for one dataset: a program that writes the same file again and again gets
  // "restart", "restart@2", ...
  if (find_cached(dataset.name) != nullptr) dataset.name += fmt::format("@{}", dataset.id);
  const bool checkpoint = c.world().any_true((flags & kFlagCheckpoint) != 0);
  dataset.output = c.world().any_true((flags & kFlagOutput) != 0);
  if (checkpoint) dataset.checkpoint = ++last_checkpoint_;
  if (c.rank() == 0) {
    log_.end(compute_event_);
    writing_->event = log_.begin(checkpoint ? EventType::kCheckpoint : EventType::kOutput,
                                 dataset.id, dataset.name);
  }
  timer_.start_checkpoint(now());
  return complete_dataset(valid);
}

void Runtime::close_window() {
  if (!writing_) return;
  Status status = cache_->remove_dataset(writing_->dataset.id);
  if (!status.ok()) log::warning("{}", status.message());
  last_dataset_ = writing_->dataset.id - 1;
  writing_.reset();
}

std::string Runtime::window_path(const std::string& relative) const {
  if (!writing_->bypass) return writing_->directory->path() + "/" + relative;
  return context_->job().prefix + "/" + flush::temporary_name(relative, writing_->dataset);
}

Result<std::string> Runtime::route_log(const std::string& relative) {
  return route_for_writing(
      context_->job().prefix + "/" + shared_file::log_name(relative, context_->rank()), relative);
}

void Runtime::note_checksum(const std::string& path, std::optional<std::uint32_t> crc) {
  if (crc) {
    known_checksums_[path] = *crc;
  } else {
    known_checksums_.erase(path);
  }
}

Status Runtime::unregister_file(const std::string& absolute) {
  const FilemapEntry* entry = cache_->filemap().get(context_->rank(), window());
  if (entry == nullptr) return {};
  auto known = std::find_if(entry->files.begin(), entry->files.end(),
                            [&](const FileMeta& meta) { return meta.original == absolute; });
  if (known == entry->files.end()) return {};
  const std::string file = known->file;
  return cache_->update(context_->rank(), window(), [&](FilemapEntry& e) { e.remove(file); });
}

std::string Runtime::cached_directory(int dataset) const {
  // Every process of the node has its files of a dataset in the same directory.
  for (int rank : cache_->filemap().ranks(dataset)) {
    const FilemapEntry* entry = cache_->filemap().get(rank, dataset);
    if (!entry->directory.empty()) return entry->directory;
  }
  return {};
}

std::vector<const FilemapEntry*> Runtime::own_entries(const DatasetDescriptor& dataset) const {
  return scr::own_entries(*context_, *cache_, dataset);
}

bool Runtime::is_in_prefix(int dataset) const {
  const FlushState* state = flush_file_.get(dataset);
  return state != nullptr && state->in_prefix;
}

}  // namespace scr
