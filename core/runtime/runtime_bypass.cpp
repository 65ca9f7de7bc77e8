// The end of a dataset whose files the program wrote straight to the prefix directory.
#include <fmt/format.h>

#include <array>
#include <set>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/runtime/runtime.hpp"
#include "flush/fetch.hpp"

namespace scr {

namespace {

Result<std::pair<std::uint64_t, std::uint32_t>> sync_and_checksum(FileSystem& fs,
                                                                  const std::string& path) {
  SCR_ASSIGN_OR_RETURN(auto file, fs.open(path, OpenOptions::read_write()));
  SCR_RETURN_IF_ERROR(file->sync());
  SCR_RETURN_IF_ERROR(file->close());
  return flush::checksum_file(fs, path);
}

// Makes the directories durable that route_file() has made for these files.
Status sync_directories(FileSystem& fs, const std::string& prefix, const flush::RankFiles& files) {
  std::set<std::string> directories = {prefix};
  for (const flush::StoredFile& file : files) {
    for (std::size_t slash = file.file.rfind('/'); slash != std::string::npos && slash > 0;
         slash = file.file.rfind('/', slash - 1)) {
      directories.insert(prefix + "/" + file.file.substr(0, slash));
    }
  }
  for (const std::string& directory : directories) {
    SCR_RETURN_IF_ERROR(fs.sync_directory(directory));
  }
  return {};
}

// What this process's program has written, which is durable afterwards.
Result<flush::RankFiles> secure_files(FileSystem& fs, const std::string& prefix,
                                      const FilemapEntry& entry) {
  flush::RankFiles files;
  for (const FileMeta& meta : entry.files) {
    const std::string path = prefix + "/" + meta.file;
    SCR_ASSIGN_OR_RETURN(const auto found, sync_and_checksum(fs, path));
    flush::StoredFile file;
    file.file = *relative_to(meta.original, prefix);
    file.size = found.first;
    file.crc = found.second;
    if (const auto info = fs.info(path); info.ok()) file.mtime_ns = info->mtime_ns;
    files.push_back(std::move(file));
  }
  SCR_RETURN_IF_ERROR(sync_directories(fs, prefix, files));
  return files;
}

}  // namespace

// Files that the program wrote straight to the prefix directory: checked, made durable, and
// committed like a flush.
Status Runtime::complete_bypassed(bool valid) {
  Context& c = *context_;
  const FilemapEntry& entry = *cache_->filemap().get(c.rank(), writing_->dataset.id);
  Result<flush::RankFiles> files = failed_precondition("the program marked its files invalid");
  if (const Status routes = check_routes(); !routes.ok()) {
    files = routes;
  } else if (valid) {
    files = secure_files(c.fs(), c.job().prefix, entry);
  }
  SCR_RETURN_IF_ERROR(agree(c.world(), files.status(), "completing the dataset"));
  std::array<std::uint64_t, 2> sums = {0, files->size()};
  for (const flush::StoredFile& file : *files) sums[0] += file.size;
  const std::uint64_t own = sums[0];
  expect_bytes(own);
  c.world().all_reduce(sums, ReduceOp::kSum);
  writing_->dataset.size = sums[0];
  writing_->dataset.files = sums[1];
  writing_->dataset.complete = true;
  const double start = now();
  SCR_ASSIGN_OR_RETURN(auto flush,
                       flush::Flush::adopt(c.world(), c.fs(), c.job().prefix, writing_->dataset,
                                           std::move(*files), writing_->made,
                                           /*keep_newer=*/c.transparent()));
  Status status = flush->finish(c.world(), c.node());
  if (!status.ok()) {
    const auto committed = is_committed(flush->directory());
    // Nobody knows: the files stay under their temporary names, and the next start ends the flush
    // or removes them. (Other programs save their files elsewhere first.)
    if (!committed.ok() && !c.transparent()) {
      const Status forgotten = cache_->forget(c.rank(), writing_->dataset.id);
      if (!forgotten.ok()) log::warning("{}", forgotten.message());
    }
    if (!committed.ok() || !*committed) return status;
  }
  // Once the summary is there the dataset counts, under temporary names or not: if something went
  // wrong after it, the next run ends the renames.
  if (c.rank() == 0) {
    if (!status.ok()) {
      log::warning(
          "dataset {} ('{}') is complete in the prefix directory, but not all is in its "
          "place yet; the next start of h5scr ends that: {}",
          writing_->dataset.id, writing_->dataset.name, status.message());
    }
    log_.once(EventType::kFlush,
              {.bytes = sums[0], .files = sums[1], .seconds = now() - start, .note = "bypass"},
              writing_->dataset.id, writing_->dataset.name);
  }
  flushed_bytes_[writing_->dataset.name] = own;
  status = cache_->forget(c.rank(), writing_->dataset.id);
  if (!status.ok()) log::warning("{}", status.message());
  tell_alive();
  return {};
}

// Collective: whether the summary of the dataset being written is in its directory. Fails if that
// cannot be known.
Result<bool> Runtime::is_committed(const std::string& directory) {
  bool committed = false;
  Status status;
  if (context_->rank() == 0) {
    auto summary = flush::read_summary(context_->fs(), directory);
    committed =
        summary.ok() && summary->complete && summary->dataset.created == writing_->dataset.created;
    if (summary.status().may_hide_sound_data()) status = summary.status();
  }
  SCR_RETURN_IF_ERROR(agree(context_->world(), status, "reading the summary"));
  return context_->world().any_true(committed);
}

}  // namespace scr
