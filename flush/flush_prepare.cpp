// Flush, the first step: takes a dataset directory, lays out what will come, and records it there.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/access.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "flush/clean_up.hpp"
#include "flush/dataset_directory.hpp"
#include "flush/flush.hpp"
#include "flush/flush_descriptor.hpp"
#include "flush/index.hpp"
#include "flush/made_directories.hpp"
#include "flush/roll_forward.hpp"

namespace scr::flush {

namespace {

std::uint64_t containers_needed(std::uint64_t stream, std::uint64_t size) {
  return stream / size + (stream % size != 0 ? 1 : 0);
}

// Two tries to flush a dataset can share data only if they lay it out alike.
std::string layout_of(const FlushOptions& options) {
  if (!options.containers) return Layout().to_text();
  return Layout{options.container_size, options.container_parity}.to_text();
}

// The copy of a file that takes the place of another, which nobody else may be allowed to read.
Status make_private_copy(FileSystem& fs, const std::string& prefix, const std::string& file,
                         const DatasetDescriptor& dataset) {
  return make_temporary(fs, prefix + "/" + temporary_name(file, dataset), prefix + "/" + file);
}

}  // namespace

Result<std::unique_ptr<Flush>> Flush::prepare(Communicator& world, Communicator& node,
                                              FileSystem& fs, const std::string& prefix,
                                              const DatasetDescriptor& dataset,
                                              const std::string& cache_directory,
                                              const std::vector<FileMeta>& files,
                                              const FlushOptions& options,
                                              const std::vector<SharedLog>& logs) {
  SCR_RETURN_IF_ERROR(check_options(world, files, options));
  std::unique_ptr<Flush> flush(new Flush(fs, prefix, dataset, options));
  for (const FileMeta& meta : files) {
    StoredFile file;
    file.file = meta.file;
    file.size = meta.size;
    file.crc = meta.crc.value_or(0);
    if (!options.containers) file.mtime_ns = meta.mtime_ns;
    file.in_container = options.containers;
    flush->files_.push_back(std::move(file));
  }
  flush->list_shared(logs);
  SCR_RETURN_IF_ERROR(flush->take_directory(world));
  if (flush->done_) {
    flush->copied_ = true;
    return flush;
  }
  flush->summary_.dataset = dataset;
  flush->summary_.complete = true;
  if (options.containers) {
    Status planned = flush->plan_containers(world, node, cache_directory);
    SCR_RETURN_IF_ERROR(agree_all(world, planned, "laying out containers"));
  } else {
    flush->plan_files(cache_directory);
  }
  // What will come, so that a later run can clean up or take it up again. Durable when it has to
  // be: before the summary.
  SCR_RETURN_IF_ERROR(
      write_rank2file(world, fs, flush->directory(), flush->files_, Durability::kVolatile));
  if (!options.containers) {
    SCR_RETURN_IF_ERROR(flush->make_parents(world));
    flush->make_private_copies();
  }
  SCR_RETURN_IF_ERROR(flush->plan_shared(world, logs));
  for (const CopyTask& task : flush->tasks_) flush->bytes_total_ += task.size;
  flush->share_bandwidth(world);
  return flush;
}

Result<std::unique_ptr<Flush>> Flush::adopt(Communicator& world, FileSystem& fs,
                                            const std::string& prefix,
                                            const DatasetDescriptor& dataset, RankFiles files,
                                            const std::vector<std::string>& made, bool keep_newer) {
  FlushOptions options;
  options.keep_newer = keep_newer;
  std::unique_ptr<Flush> flush(new Flush(fs, prefix, dataset, options));
  flush->files_ = std::move(files);
  SCR_RETURN_IF_ERROR(flush->take_directory(world));
  flush->summary_.dataset = dataset;
  flush->summary_.complete = true;
  std::set<std::string> parents;
  for (const StoredFile& file : flush->files_) parents.insert(parent_of(prefix + "/" + file.file));
  Status status;
  for (const std::string& parent : parents) {
    if (status.ok()) status = fs.sync_directory(parent);
  }
  SCR_RETURN_IF_ERROR(agree_all(world, status, "writing straight to the prefix directory"));
  SCR_RETURN_IF_ERROR(
      write_rank2file(world, fs, flush->directory(), flush->files_, Durability::kVolatile));
  SCR_RETURN_IF_ERROR(flush->note_directories(world, made));
  flush->copied_ = true;
  return flush;
}

// The same answer on all ranks: options are, and the sizes are summed.
Status Flush::check_options(Communicator& world, const std::vector<FileMeta>& files,
                            const FlushOptions& options) {
  if (!options.containers) return {};
  if (options.container_size == 0)
    return invalid_argument("containers cannot have a size of 0 bytes");
  if (options.container_parity > kMaxContainerParity) {
    return invalid_argument(fmt::format("{} parity containers are more than {}",
                                        options.container_parity, kMaxContainerParity));
  }
  std::uint64_t bytes = 0;
  for (const FileMeta& meta : files) bytes += meta.size;
  bytes = world.all_reduce(bytes, ReduceOp::kSum);
  const std::uint64_t count = containers_needed(bytes, options.container_size);
  if (count <= kMaxContainers) return {};
  return invalid_argument(
      fmt::format("{} bytes in containers of {} bytes would need {} of them, more than {}; make "
                  "SCR_CONTAINER_SIZE larger",
                  bytes, options.container_size, count, kMaxContainers));
}

// Rank 0 takes a directory for all: that of the same dataset's flush before, if it was cut, or a
// new one.
Status Flush::take_directory(Communicator& world) {
  Status status;
  bool resumed = false;
  if (world.rank() == 0) status = take_directory_alone(resumed);
  SCR_RETURN_IF_ERROR(agree_all(world, status, "taking a dataset directory"));
  directory_name_ = world.broadcast_string(directory_name_, 0);
  options_.copy.resume = world.any_true(resumed);
  intent_.attempt = world.all_reduce(intent_.attempt, ReduceOp::kMax);
  rank_ = world.rank();
  ranks_ = world.size();
  done_ = world.any_true(done_);
  return {};
}

Status Flush::take_directory_alone(bool& resumed) {
  SCR_ASSIGN_OR_RETURN(done_, roll_forward_dataset(fs_, prefix_, dataset_));
  if (done_) return {};
  SCR_ASSIGN_OR_RETURN(std::string found, find_intent(fs_, prefix_, dataset_));
  if (!found.empty()) {
    SCR_ASSIGN_OR_RETURN(auto taken,
                         take_up(fs_, prefix_, found, layout_of(options_), options_.keep_newer));
    resumed = taken.has_value();
    if (resumed) {
      // Ranks may have come to other nodes since, and so to other places in the containers.
      if (options_.containers) {
        SCR_RETURN_IF_ERROR(
            remove_scavenge_files(fs_, prefix_, found, dataset_, /*committed=*/false));
      }
      intent_ = std::move(*taken);
      directory_name_ = found;
      return {};
    }
  }
  SCR_ASSIGN_OR_RETURN(directory_name_, make_dataset_directory(fs_, prefix_, dataset_.id));
  intent_.dataset = dataset_;
  intent_.layout = layout_of(options_);
  intent_.keep_newer = options_.keep_newer;
  Status status = write_intent(fs_, directory(), intent_, Durability::kVolatile);
  if (!status.ok()) (void)remove_dataset_directory(fs_, prefix_, directory_name_);
  return status;
}

// The limit is for all processes together; each gets its share, so that all end at the same time.
void Flush::share_bandwidth(Communicator& world) {
  bandwidth_ = options_.copy.bytes_per_second;
  if (options_.copy.bytes_per_second <= 0) return;
  const std::uint64_t all = world.all_reduce(bytes_total_, ReduceOp::kSum);
  if (bytes_total_ > 0)
    options_.copy.bytes_per_second *= static_cast<double>(bytes_total_) / static_cast<double>(all);
}

void Flush::add_task(const StoredFile& file, const std::string& cache_directory) {
  CopyTask task;
  task.source = cache_directory + "/" + file.file;
  task.size = file.size;
  task.crc = file.crc;
  task.pieces = places_of(file, dataset_, prefix_, directory());
  tasks_.push_back(std::move(task));
}

void Flush::plan_files(const std::string& cache_directory) {
  for (const StoredFile& file : files_) {
    if (file.shared) continue;
    add_task(file, cache_directory);
    tasks_.back().unwanted = [this, name = file.file] { return has_left(name); };
    tasks_.back().deleted = [this, name = file.file] { return was_deleted(name); };
  }
}

void Flush::make_private_copies() {
  for (const StoredFile& file : files_) {
    if (file.shared || was_deleted(file.file)) continue;
    const Status made = make_private_copy(fs_, prefix_, file.file, dataset_);
    if (!made.ok()) log::warning("{}", made.message());  // the copy will say it, too
  }
}

// Every directory, also one on the way to others, is made once, by the rank that its name picks;
// those above others first. Those in which directories were made are synced once, when all are
// there; those that files will be in when the files are.
Status Flush::make_parents(Communicator& world) {
  const auto home_of = [&](const std::string& name) {
    return std::to_string(std::hash<std::string>{}(name) % static_cast<std::size_t>(world.size()));
  };
  Hash send;
  for (const StoredFile& file : files_) {
    for (std::string name = parent_of(file.file); !name.empty();) {
      if (send.at(home_of(name)).at("MAKE").contains(name)) break;
      send.at(home_of(name)).at("MAKE").at(name);
      name = parent_of(name);
      send.at(home_of(name)).at("SYNC").at(name);
    }
  }
  Hash receive;
  Status status = exchange_hashes(world, send, receive);
  Hash mine;
  for (const auto& element : receive.elements()) mine.merge(element.hash);
  std::map<std::uint64_t, std::vector<std::string>> levels;
  if (const Hash* list = mine.get("MAKE")) {
    for (const auto& element : list->elements())
      levels[static_cast<std::uint64_t>(std::ranges::count(element.key, '/'))].push_back(
          element.key);
  }
  const std::uint64_t deepest =
      world.all_reduce(levels.empty() ? 0 : levels.rbegin()->first + 1, ReduceOp::kMax);
  std::vector<std::string> made;
  for (std::uint64_t level = 0; level < deepest; ++level) {
    for (const std::string& name : levels[level]) {
      if (status.ok()) status = make_missing(fs_, prefix_, nullptr, name, made);
    }
    SCR_RETURN_IF_ERROR(agree_all(world, status, "making directories in the prefix directory"));
  }
  if (const Hash* list = mine.get("SYNC")) {
    for (const auto& element : list->elements()) {
      if (status.ok())
        status = fs_.sync_directory(element.key.empty() ? prefix_ : prefix_ + "/" + element.key);
    }
  }
  SCR_RETURN_IF_ERROR(agree_all(world, status, "making directories in the prefix directory"));
  return note_directories(world, made);
}

// Collective: those that were made on all ranks will go with the last dataset in them.
Status Flush::note_directories(Communicator& world, const std::vector<std::string>& made) {
  if (!world.any_true(!made.empty())) return {};
  Hash send;
  for (const std::string& name : made) send.at("0").at(name);
  Hash receive;
  Status status = exchange_hashes(world, send, receive);
  std::vector<std::string> all;
  for (const auto& process : receive.elements()) {
    for (const auto& element : process.hash.elements()) all.push_back(element.key);
  }
  if (status.ok() && world.rank() == 0) status = note_made(fs_, prefix_, all);
  return agree_all(world, status, "noting the directories that were made");
}

Status Flush::plan_containers(Communicator& world, Communicator& node,
                              const std::string& cache_directory) {
  std::uint64_t mine = 0;
  for (const StoredFile& file : files_) mine += file.size;
  std::uint64_t offset = offset_in_stream(world, node, mine);
  for (StoredFile& file : files_) {
    file.segments = place_in_containers(offset, file.size, options_.container_size);
    offset += file.size;
  }
  summary_.containers = true;
  summary_.container_size = options_.container_size;
  summary_.stream_size = world.all_reduce(mine, ReduceOp::kSum);
  summary_.container_count = containers_needed(summary_.stream_size, options_.container_size);
  summary_.container_parity = summary_.container_count > 0 ? options_.container_parity : 0;

  // The first rank of the node copies for all: one stream of large writes in order.
  Hash send;
  Hash& message = send.at("0");
  message.set_value("DIRECTORY", cache_directory);
  message.set("FILES", rank_files_to_hash(files_));
  Hash receive;
  SCR_RETURN_IF_ERROR(exchange_hashes(node, send, receive));
  receive.sort_int();
  for (const auto& element : receive.elements()) {
    SCR_ASSIGN_OR_RETURN(RankFiles files, rank_files_from_hash(*element.hash.get("FILES")));
    SCR_ASSIGN_OR_RETURN(std::string source, element.hash.require_value("DIRECTORY"));
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].shared) continue;
      add_task(files[i], source);
      task_owner_.push_back(std::stoi(element.key));
      task_file_.push_back(i);
    }
  }
  return {};
}

// The process with the log of the first rank lists the file.
void Flush::list_shared(const std::vector<SharedLog>& logs) {
  for (const SharedLog& log : logs) {
    if (log.table.rank != log.table.first_rank) continue;
    StoredFile file;
    file.file = log.file;
    file.size = log.table.size;
    file.shared = true;
    shared_times_[log.file] = log.table.written;
    file.in_container = options_.containers;
    files_.push_back(std::move(file));
  }
}

// The file has its size from the start: several processes write to it, and it may end with a hole.
// Unless what is there is kept, it is empty: holes are not written.
Status Flush::make_shared_files(const std::vector<SharedLog>& logs) {
  if (options_.containers) return {};
  for (const SharedLog& log : logs) {
    if (log.table.rank != log.table.first_rank) continue;
    OpenOptions options = OpenOptions::read_write();
    options.create = true;
    options.mode = options_.copy.mode & temporary_mode(fs_, prefix_ + "/" + log.file);
    const std::string name = prefix_ + "/" + temporary_name(log.file, dataset_);
    options.truncate = !options_.copy.resume;
    SCR_ASSIGN_OR_RETURN(auto file, fs_.open(name, options));
    SCR_RETURN_IF_ERROR(file->truncate(log.table.size));
    SCR_RETURN_IF_ERROR(file->close());
  }
  return {};
}

Status Flush::plan_shared(Communicator& world, const std::vector<SharedLog>& logs) {
  any_shared_ = world.any_true(!logs.empty());
  if (!any_shared_) return {};
  SCR_RETURN_IF_ERROR(agree_all(world, make_shared_files(logs), "making shared files"));
  const auto place = [this](const std::string& name, std::uint64_t /*size*/) {
    const auto file = std::ranges::find(files_, name, &StoredFile::file);
    return places_of(*file, dataset_, prefix_, directory());
  };
  const bool new_files = !options_.containers && !options_.copy.resume;
  SCR_ASSIGN_OR_RETURN(regions_, plan_replay(world, logs, place, new_files));
  for (CopyTask& task : replay_tasks(regions_, options_.open_log)) {
    tasks_.push_back(std::move(task));
  }
  return {};
}

}  // namespace scr::flush
