#include "core/routing/fallback_file.hpp"

#include <mutex>

#include "core/base/read_only_file.hpp"

namespace scr::routing {

namespace {

using OpenElsewhere = std::function<Result<std::unique_ptr<File>>()>;

class FallbackFile final : public ReadOnlyFile {
 public:
  FallbackFile(std::unique_ptr<File> first, const FileInfo& info, OpenElsewhere elsewhere)
      : first_(std::move(first)), info_(info), elsewhere_(std::move(elsewhere)) {}

  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    auto count = first_->read_some(buffer, offset);
    if (count.ok()) return count;
    auto other = open_elsewhere();
    return other.ok() ? (*other)->read_some(buffer, offset) : count;
  }
  // HDF5 tells files by their numbers, so those stay.
  Result<FileInfo> info() override {
    auto now = first_->info();
    if (!now.ok()) {
      if (auto other = open_elsewhere(); other.ok()) now = (*other)->info();
    }
    SCR_RETURN_IF_ERROR(now.status());
    FileInfo info = info_;
    info.size = now->size;
    return info;
  }
  Status close() override { return first_->close(); }
  const std::string& path() const override { return first_->path(); }

 private:
  Result<File*> open_elsewhere() {
    const std::lock_guard lock(mutex_);
    if (!other_) {
      SCR_ASSIGN_OR_RETURN(other_, elsewhere_());
    }
    return other_.get();
  }

  const std::unique_ptr<File> first_;
  const FileInfo info_;  // when it was opened
  const OpenElsewhere elsewhere_;
  std::mutex mutex_;  // of the following
  std::unique_ptr<File> other_;
};

}  // namespace

Result<std::unique_ptr<File>> open_with_fallback(Result<std::unique_ptr<File>> first,
                                                 OpenElsewhere elsewhere) {
  auto info = first.ok() ? (*first)->info() : Result<FileInfo>(first.status());
  if (!info.ok()) {
    auto other = elsewhere();
    if (other.ok()) return other;
    return info.status();
  }
  return std::unique_ptr<File>(
      std::make_unique<FallbackFile>(*std::move(first), *info, std::move(elsewhere)));
}

}  // namespace scr::routing
