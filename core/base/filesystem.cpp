// The parts of the file-system seam that every implementation shares: they call only its virtual
// functions, so that a fault can strike at each step of them.
#include "core/base/filesystem.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/base/faulty_filesystem.hpp"
#include "core/base/holes.hpp"

namespace scr {
namespace {

// A directory and a name in it.
struct SplitPath {
  std::string parent;  // "." if the path has no slash
  std::string name;
};

SplitPath split_last(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  const std::string trimmed = path.substr(0, end == std::string::npos ? 1 : end + 1);
  const std::size_t slash = trimmed.rfind('/');
  if (slash == std::string::npos) return {".", trimmed};
  const std::size_t parent_end = trimmed.find_last_not_of('/', slash);
  if (parent_end == std::string::npos) return {"/", trimmed.substr(slash + 1)};
  return {trimmed.substr(0, parent_end + 1), trimmed.substr(slash + 1)};
}

At with_path(const At& at, std::string path) {
  return at.directory != nullptr ? At(*at.directory, std::move(path)) : At(std::move(path));
}

std::string temporary_name(const SplitPath& target) {
  static std::atomic<unsigned> counter{0};
  unsigned random = 0;  // tells runs apart that reuse a process id
  (void)::getrandom(&random, sizeof random, GRND_NONBLOCK);
  constexpr std::size_t kLongestPart = 200;  // leaves room below the usual limit of 255
  const std::string name =
      fmt::format(".{}.tmp.{:x}-{:x}-{:08x}", std::string_view(target.name).substr(0, kLongestPart),
                  ::getpid(), counter.fetch_add(1), random);
  return target.parent == "." ? name : target.parent + "/" + name;
}

Status write_new_file(FileSystem& fs, const At& at, std::span<const std::byte> data, bool durable,
                      mode_t mode) {
  OpenOptions options = OpenOptions::create_new();
  options.mode = mode;
  SCR_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.open(at, options));
  SCR_RETURN_IF_ERROR(file->write_all(data, 0));
  if (durable) SCR_RETURN_IF_ERROR(file->sync());
  return file->close();
}

Result<std::vector<std::byte>> read_to_end(File& file, std::size_t expected) {
  // One byte more than expected, so that the end of the file shows in one pass.
  std::vector<std::byte> bytes(expected + 1);
  std::size_t filled = 0;
  for (;;) {
    SCR_ASSIGN_OR_RETURN(const std::size_t count,
                         file.read(std::span(bytes).subspan(filled), filled));
    filled += count;
    if (filled < bytes.size()) break;
    bytes.resize(bytes.size() * 2);
  }
  bytes.resize(filled);
  return bytes;
}

// Null if SCR_FAULT does not ask for faults in this process.
std::unique_ptr<FileSystem> faulty_file_system_from_environment() {
  const char* text = std::getenv("SCR_FAULT");
  if (text == nullptr) return nullptr;
  Result<FaultPlan> plan = FaultPlan::parse(text);
  if (!plan.ok()) {
    std::fprintf(stderr, "SCR: %s\n", std::string(plan.status().message()).c_str());
    std::_Exit(2);
  }
  if (!plan->applies_to_this_rank()) return nullptr;
  return std::make_unique<FaultyFileSystem>(real_file_system(), *std::move(plan));
}

}  // namespace

OpenOptions OpenOptions::read_write() {
  OpenOptions options;
  options.access = Access::kReadWrite;
  return options;
}

OpenOptions OpenOptions::create_new() {
  OpenOptions options;
  options.access = Access::kWrite;
  options.create = true;
  options.exclusive = true;
  return options;
}

OpenOptions OpenOptions::create_truncate() {
  OpenOptions options;
  options.access = Access::kReadWrite;
  options.create = true;
  options.truncate = true;
  return options;
}

Mapping::Mapping(void* base, std::size_t mapped, std::span<const std::byte> bytes)
    : base_(base), mapped_(mapped), bytes_(bytes) {}

Mapping::~Mapping() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  Mapping taken(std::move(other));
  std::swap(base_, taken.base_);
  std::swap(mapped_, taken.mapped_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

std::string At::display() const {
  if (directory == nullptr) return path;
  const std::string& base = directory->path();
  if (path.empty() || path == ".") return base;
  return base.ends_with('/') ? base + path : base + "/" + path;
}

At temporary_beside(const At& at) { return with_path(at, temporary_name(split_last(at.path))); }

Result<std::size_t> File::read(std::span<std::byte> buffer, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    SCR_ASSIGN_OR_RETURN(const std::size_t count, read_some(buffer.subspan(done), offset + done));
    if (count == 0) break;
    done += count;
  }
  return done;
}

Status File::read_exactly(std::span<std::byte> buffer, std::uint64_t offset) {
  SCR_ASSIGN_OR_RETURN(const std::size_t count, read(buffer, offset));
  if (count == buffer.size()) return {};
  return corrupt(fmt::format("cannot read '{}': file is shorter than {} bytes: it ends at byte {}",
                             path(), offset + buffer.size(), offset + count));
}

Status File::write_all(std::span<const std::byte> data, std::uint64_t offset) {
  while (!data.empty()) {
    SCR_ASSIGN_OR_RETURN(const std::size_t count, write_some(data, offset));
    if (count == 0) return errno_status(EIO, "write", path());
    data = data.subspan(count);
    offset += count;
  }
  return {};
}

Status FileSystem::exchange(const At& one, const At& other) {
  return errno_status(EOPNOTSUPP, "exchange", one.display() + "' and '" + other.display());
}

Result<std::string> FileSystem::real_path(const std::string& absolute) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::string real;
  std::string rest = absolute;  // to be walked still, from `real` on
  int links = 0;
  for (std::size_t begin = 0; begin < rest.size();) {
    const std::size_t end = std::min(rest.find('/', begin), rest.size());
    const std::string name = rest.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      real.resize(real.empty() ? 0 : real.rfind('/'));
      continue;
    }
    const auto target = read_symlink(real + "/" + name);
    if (target.ok()) {
      if (++links > kMostLinks) return errno_status(ELOOP, "follow", absolute);
      if (target->starts_with('/')) real.clear();
      rest = begin < rest.size() ? *target + "/" + rest.substr(begin) : *target;
      begin = 0;
    } else if (target.status().errno_value() == EINVAL) {  // no symbolic link
      real += "/" + name;
    } else {
      return target.status();
    }
  }
  return real.empty() ? "/" : real;
}

Result<bool> FileSystem::exists(const At& at) {
  const Result<FileInfo> found = info(at);
  if (found.ok()) return true;
  if (found.status().code() == StatusCode::kNotFound) return false;
  return found.status();
}

Status FileSystem::make_directories(const At& at, mode_t mode) {
  Status made = make_directory(at, mode);
  if (made.errno_value() == ENOENT) {
    const SplitPath target = split_last(at.path);
    if (target.parent == "." || target.parent == at.path) return made;
    SCR_RETURN_IF_ERROR(make_directories(with_path(at, target.parent), mode));
    made = make_directory(at, mode);
  }
  if (made.errno_value() != EEXIST) return made;
  SCR_ASSIGN_OR_RETURN(const FileInfo found, info(at, at.directory == nullptr));
  return found.type == FileInfo::Type::kDirectory ? Status() : made;
}

Status FileSystem::remove_if_exists(const At& at) {
  Status removed = remove(at);
  return removed.code() == StatusCode::kNotFound ? Status() : removed;
}

Result<std::vector<std::byte>> FileSystem::read_file(const At& at) {
  SCR_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, open(at, OpenOptions::read()));
  SCR_ASSIGN_OR_RETURN(const FileInfo found, file->info());
  const bool has_size = found.type == FileInfo::Type::kRegular;
  try {
    return read_to_end(*file, has_size ? static_cast<std::size_t>(found.size) : 0);
  } catch (const std::bad_alloc&) {
    return errno_status(ENOMEM, "read", at.display());
  } catch (const std::length_error&) {
    return errno_status(ENOMEM, "read", at.display());
  }
}

bool locks_are_missing(const Status& lock_failure) {
  const int value = lock_failure.errno_value();
  return value == ENOSYS || value == EOPNOTSUPP || value == ENOLCK;
}

Status FileSystem::sync_file(const At& at) {
  SCR_ASSIGN_OR_RETURN(auto file, open(at, OpenOptions::read_write()));
  SCR_RETURN_IF_ERROR(file->sync());
  return file->close();
}

Status FileSystem::write_file_atomically(const At& at, std::span<const std::byte> data,
                                         bool durable, mode_t mode) {
  const SplitPath target = split_last(at.path);
  const At temporary = temporary_beside(at);
  Status written = write_new_file(*this, temporary, data, durable, mode);
  if (written.ok()) written = rename(temporary, at);
  if (!written.ok()) {
    // The first failure is what the user must see; what remains is a hidden file at worst.
    (void)remove_if_exists(temporary);
    return written;
  }
  return durable ? sync_directory(with_path(at, target.parent)) : Status();
}

FileSystem& file_system() {
  // Never destroyed: other threads and destructors of statics may still use it at exit.
  static const auto* const faulty =
      new std::unique_ptr<FileSystem>(faulty_file_system_from_environment());
  return *faulty != nullptr ? **faulty : real_file_system();
}

Status copy_contents(File& from, File& to) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  std::vector<std::byte> buffer(kPiece);
  for (std::uint64_t offset = 0;;) {
    SCR_ASSIGN_OR_RETURN(const std::size_t count, from.read(buffer, offset));
    if (count == 0) return {};
    SCR_RETURN_IF_ERROR(write_with_holes(to, std::span(buffer).first(count), offset));
    offset += count;
  }
}

Status copy_file(FileSystem& fs, const At& from, const At& to) {
  SCR_ASSIGN_OR_RETURN(auto source, fs.open(from, OpenOptions::read()));
  SCR_ASSIGN_OR_RETURN(auto target, fs.open(to, OpenOptions::create_truncate()));
  SCR_RETURN_IF_ERROR(copy_contents(*source, *target));
  SCR_RETURN_IF_ERROR(target->sync());
  return target->close();
}

}  // namespace scr
