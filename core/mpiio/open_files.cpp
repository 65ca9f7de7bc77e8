#include "core/mpiio/open_files.hpp"

namespace scr::mpiio {
namespace {

// A pointer in every MPI that we know.
const void* key_of(MPI_File handle) { return static_cast<const void*>(handle); }

}  // namespace

OpenFiles& OpenFiles::process() {
  static auto* const files = new OpenFiles;  // files may be closed after main()
  return *files;
}

void OpenFiles::add(std::shared_ptr<OpenFile> file) {
  const std::lock_guard lock(mutex_);
  files_[key_of(file->handle())] = std::move(file);
  ++count_;
}

OpenFile* OpenFiles::find(MPI_File handle) const {
  const std::shared_lock lock(mutex_);
  const auto found = files_.find(key_of(handle));
  return found != files_.end() ? found->second.get() : nullptr;
}

std::shared_ptr<OpenFile> OpenFiles::remove(const OpenFile& file) {
  const std::lock_guard lock(mutex_);
  auto node = files_.extract(key_of(file.handle()));
  --count_;
  return std::move(node.mapped());
}

void OpenFiles::note_unpublished() { unpublished_ = ++writes_; }

int OpenFiles::publish() {
  unsigned long noted = unpublished_;
  if (noted == 0) return MPI_SUCCESS;
  std::vector<std::shared_ptr<OpenFile>> files;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [handle, file] : files_) files.push_back(file);
  }
  int first = MPI_SUCCESS;
  for (const auto& file : files) {
    const int code = file->publish();
    if (first == MPI_SUCCESS) first = code;
  }
  if (first == MPI_SUCCESS) unpublished_.compare_exchange_strong(noted, 0);
  return first;
}

}  // namespace scr::mpiio
