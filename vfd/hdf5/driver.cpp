// The HDF5 virtual file driver "scr".
//
// Which bytes a file has is the session's business (core/routing/session.hpp): it may be in the
// cache, on another node, in a container, or simply at its name. To HDF5 it behaves as with its own
// driver sec2, whose files it reads and writes byte for byte. No callback is collective or calls
// MPI. HDF5 calls one callback at a time. Compiled against 1.14 and against 1.10
// (hdf5_library.hpp).
#include "vfd/hdf5/driver.hpp"

#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/config_sources.hpp"
#include "core/base/filesystem.hpp"
#include "core/base/log.hpp"
#include "core/routing/session.hpp"
#include "vfd/hdf5/h5fd_scr.h"
#ifdef H5SCR_HDF5_PLUGIN
#include "vfd/hdf5/parallel.hpp"
#endif
#include "vfd/hdf5/trace.hpp"

namespace scr::vfd {
namespace {

constexpr auto kLargestAddress = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

// HDF5 holds a pointer to the base class and fills it in after open().
struct OpenFile : H5FD_t {
  OpenFile(Hdf5Library& library_in, routing::Session::Opened opened, const FileInfo& info)
      : H5FD_t(),
        library(library_in),
        file(std::move(opened.file)),
        routed(opened.routed),
        descriptor(file->descriptor()),
        device(info.device),
        inode(info.inode),
        end_of_file(info.size) {}

  Hdf5Library& library;
  std::unique_ptr<File> file;
  routing::RoutedFile* routed;  // the same, unless it is simply the file of its name
  int descriptor;               // applications get a pointer to it
  dev_t device;
  ino_t inode;
  haddr_t end_of_addresses = 0;     // end of what HDF5 has allocated in the file
  haddr_t end_of_file;              // end of the file on disk
  bool truncate_called = false;     // since the last flush
  bool collected_metadata = false;  // HDF5 did, before the last write
  bool ignore_disabled_locks = false;
  bool ignore_driver_info = false;
};

OpenFile& open_file(H5FD_t* file) { return *static_cast<OpenFile*>(file); }
const OpenFile& open_file(const H5FD_t* file) { return *static_cast<const OpenFile*>(file); }

OpenOptions options_from(unsigned flags) {
  OpenOptions options;
  if ((flags & H5F_ACC_RDWR) != 0) options.access = OpenOptions::Access::kReadWrite;
  options.create = (flags & H5F_ACC_CREAT) != 0;
  options.exclusive = (flags & H5F_ACC_EXCL) != 0;
  options.truncate = (flags & H5F_ACC_TRUNC) != 0;
  options.no_follow = false;  // the user's own path
  return options;
}

std::string flag_names(unsigned flags) {
  std::string names = (flags & H5F_ACC_RDWR) != 0 ? "RDWR" : "RDONLY";
  const auto add = [&](unsigned flag, const char* name) {
    if ((flags & flag) != 0) names += std::string("|") + name;
  };
  add(H5F_ACC_CREAT, "CREAT");
  add(H5F_ACC_EXCL, "EXCL");
  add(H5F_ACC_TRUNC, "TRUNC");
  add(H5F_ACC_SWMR_READ, "SWMR_READ");
  add(H5F_ACC_SWMR_WRITE, "SWMR_WRITE");
  return names;
}

// Whether a file system without locks is fine: HDF5_USE_FILE_LOCKING says, else the property.
bool ignores_disabled_locks(Hdf5Library& library, hid_t fapl_id) {
  if (const char* variable = std::getenv("HDF5_USE_FILE_LOCKING"); variable != nullptr) {
    const std::string_view value = variable;
    if (value == "BEST_EFFORT") return true;
    if (value == "TRUE" || value == "1") return false;
  }
  hbool_t use = false;
  hbool_t ignore = false;
  return library.get_file_locking != nullptr &&
         library.get_file_locking(fapl_id, &use, &ignore) >= 0 && ignore;
}

// h5repart sets this when it joins a family of files: the superblock still names the family driver.
bool ignores_driver_info(Hdf5Library& library, hid_t fapl_id) {
  constexpr const char* kProperty = "family_to_single";
  hbool_t ignore = false;
  return library.property_exists(fapl_id, kProperty) > 0 &&
         library.get_property(fapl_id, kProperty, &ignore) >= 0 && ignore;
}

// HDF5_DRIVER_CONFIG, or what came with the driver's name; empty if there is none.
#ifdef H5SCR_HDF5_PLUGIN
std::string driver_settings(Hdf5Library& library, hid_t fapl_id) {
  std::array<char, 512> most{};
  const ssize_t length = library.get_driver_config_string(fapl_id, most.data(), most.size());
  if (length <= 0) return {};
  if (static_cast<std::size_t>(length) < most.size()) return most.data();
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  library.get_driver_config_string(fapl_id, text.data(), text.size());
  text.resize(static_cast<std::size_t>(length));
  return text;
}
#else
std::string driver_settings(Hdf5Library&, hid_t) {
  const char* text = std::getenv("HDF5_DRIVER_CONFIG");
  return text != nullptr ? text : "";
}
#endif

Status configure(const std::string& text) {
  if (text.empty()) return {};
  static auto& last = *new std::string;  // HDF5 calls one callback at a time
  if (text == last) return {};
  SCR_RETURN_IF_ERROR(routing::Session::process()
                          .configure(config::split_settings(text))
                          .with_context(fmt::format("the driver configuration '{}'", text)));
  last = text;
  return {};
}

Result<std::unique_ptr<OpenFile>> open_path(Hdf5Library& library, const char* name, unsigned flags,
                                            hid_t fapl_id) {
  if (name == nullptr || *name == '\0')
    return invalid_argument("cannot open a file without a name");
  SCR_RETURN_IF_ERROR(configure(driver_settings(library, fapl_id)));
  static const bool trace_decided = (start_trace(routing::Session::process().trace_file()), true);
  (void)trace_decided;
  TracedCall trace("open", name);
  if (trace.is_on()) trace.set_flags(flag_names(flags));
  const bool ignore_locks = ignores_disabled_locks(library, fapl_id);
  const bool ignore_info = ignores_driver_info(library, fapl_id);
  const bool swmr = (flags & (H5F_ACC_SWMR_READ | H5F_ACC_SWMR_WRITE)) != 0;
  SCR_ASSIGN_OR_RETURN(auto opened,
                       routing::Session::process().open(name, options_from(flags), swmr));
  if (!opened.info) {
    SCR_ASSIGN_OR_RETURN(opened.info, opened.file->info());
  }
  const FileInfo info = *opened.info;
  auto file = std::make_unique<OpenFile>(library, std::move(opened), info);
  file->ignore_disabled_locks = ignore_locks;
  file->ignore_driver_info = ignore_info;
  trace.ended(0);
  return file;
}

// Opens or creates a file. HDF5 opens an existing file without H5F_ACC_TRUNC first, to see whether
// it is open already, even when the application truncates it: that open must change nothing.
H5FD_t* open(const char* name, unsigned flags, hid_t fapl_id, [[maybe_unused]] haddr_t largest) {
  Hdf5Library* const library = Hdf5Library::of_caller(__builtin_return_address(0));
  if (library == nullptr) return nullptr;
  library->prepare_errors();
  H5FD_t* opened = nullptr;
#ifdef H5SCR_HDF5_PLUGIN
  if (is_parallel(*library, fapl_id)) {
    const herr_t configured = guarded(*library, {"open", Failure::kOpen}, [&] {
      return configure(driver_settings(*library, fapl_id));
    });
    if (configured < 0) return nullptr;
    return open_parallel(*library, name, flags, fapl_id, largest);
  }
#endif
  guarded(*library, {"open", Failure::kOpen}, [&]() -> Status {
    SCR_ASSIGN_OR_RETURN(auto file, open_path(*library, name, flags, fapl_id));
    opened = file.release();
    return {};
  });
  return opened;
}

// Closes a file. It is gone for HDF5 also when that reports an error of delayed writes.
herr_t close(H5FD_t* closing) {
  const std::unique_ptr<OpenFile> file(&open_file(closing));
  TracedCall trace("close", *file->file);
  return trace.ended(
      guarded(file->library, {"close", Failure::kClose}, [&] { return file->file->close(); }));
}

// A routed file that is written may have moved since it was opened; the others have not, and may be
// on another node, which would have to be asked.
std::pair<dev_t, ino_t> identity(const OpenFile& file) {
  using Role = routing::RoutedFile::Role;
  const Role role = file.routed != nullptr ? file.routed->role() : Role::kReader;
  if (role == Role::kWriter || role == Role::kLive || role == Role::kPlain) {
    auto info = file.routed->info();
    if (info.ok()) return {info->device, info->inode};
  }
  return {file.device, file.inode};
}

// Orders two files; equal means the same file on disk, and HDF5 then shares one open between them.
int compare(const H5FD_t* a, const H5FD_t* b) {
  const auto first = identity(open_file(a));
  const auto second = identity(open_file(b));
  return first < second ? -1 : first > second ? 1 : 0;
}

// What HDF5 may do with a file, or with the driver in general if `file` is null.
herr_t query(const H5FD_t* file, unsigned long* flags) {
  if (flags == nullptr) return 0;
#ifdef H5SCR_HDF5_PLUGIN
  if (herr_t result = 0; hand_over(file, flags, result)) return result;
#endif
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE |
           // Also for routed files: H5Fget_eoa() asks for it; SWMR itself is refused in open() and
           // unlock().
           H5FD_FEAT_SUPPORTS_SWMR_IO;
  // With a handle HDF5 would look at the file of the application's name, which a routed one is not.
  if (file == nullptr || open_file(file).routed == nullptr) {
    *flags |= H5FD_FEAT_POSIX_COMPAT_HANDLE;
  }
  if (file != nullptr && open_file(file).ignore_driver_info) *flags |= H5FD_FEAT_IGNORE_DRVRINFO;
  return 0;
}

// End of the addresses that HDF5 has allocated; HDF5 alone changes it.
haddr_t get_end_of_addresses(const H5FD_t* file, H5FD_mem_t) {
  return open_file(file).end_of_addresses;
}

herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  open_file(file).end_of_addresses = address;
  return 0;
}

// End of the file as this process knows it: its size when opened, and what was written since.
haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) { return open_file(file).end_of_file; }

// A pointer to the file descriptor, valid while the file is open.
herr_t get_handle(H5FD_t* file, hid_t, void** handle) {
  OpenFile& target = open_file(file);
  return guarded(target.library, {"get_handle", Failure::kArguments}, [&]() -> Status {
    if (handle == nullptr) return invalid_argument("cannot return the file handle: no place given");
    target.descriptor = target.file->descriptor();
    *handle = &target.descriptor;
    return {};
  });
}

// Says where in the file a transfer failed.
Status at_range(const Status& status, haddr_t address, std::size_t size) {
  if (status.ok()) return status;
  return {status.code(), fmt::format("{}, {} bytes at offset {}", status.message(), size, address),
          status.errno_value()};
}

Status check_range(const OpenFile& file, haddr_t address, std::size_t size) {
  if (address <= kLargestAddress && size <= kLargestAddress - address) return {};
  return at_range(errno_status(EFBIG, "reach", file.file->path()), address, size);
}

// Reads `size` bytes. Bytes after the end of the file are zero: HDF5 allocates before it writes.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* buffer) {
  OpenFile& source = open_file(file);
  TracedCall trace("read", *source.file, address, size);
  return trace.ended(guarded(source.library, {"read", Failure::kRead}, [&]() -> Status {
    SCR_RETURN_IF_ERROR(check_range(source, address, size));
    const std::span bytes(static_cast<std::byte*>(buffer), size);
    const auto count = source.file->read(bytes, address);
    if (!count.ok()) return at_range(count.status(), address, size);
    std::ranges::fill(bytes.subspan(*count), std::byte{0});
    return {};
  }));
}

// Without locks H5Fstart_swmr_write() shows only in that HDF5 no longer collects metadata, and then
// it is too late to refuse: HDF5 could not go on with the file.
void watch_for_swmr(OpenFile& file) {
  const bool collects = (file.feature_flags & H5FD_FEAT_ACCUMULATE_METADATA) != 0;
  if (!collects && file.collected_metadata)
    log::warning("{}", routing::no_swmr(file.file->path()).message());
  file.collected_metadata = collects;
}

// Writes `size` bytes, all of them unless it fails.
herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size,
             const void* buffer) {
  OpenFile& target = open_file(file);
  TracedCall trace("write", *target.file, address, size);
  return trace.ended(guarded(target.library, {"write", Failure::kWrite}, [&]() -> Status {
    SCR_RETURN_IF_ERROR(check_range(target, address, size));
    if (target.routed != nullptr) watch_for_swmr(target);
    const std::span bytes(static_cast<const std::byte*>(buffer), size);
    SCR_RETURN_IF_ERROR(at_range(target.file->write_all(bytes, address), address, size));
    target.end_of_file = std::max(target.end_of_file, address + size);
    return {};
  }));
}

// Nothing is held back in the process, and H5Fflush does not mean fsync; but a file that stays open
// while it is flushed again and again should not be in the cache. HDF5 calls this for many reasons,
// for the whole file only after truncate().
herr_t flush(H5FD_t* file, hid_t, hbool_t closing) {
  OpenFile& target = open_file(file);
  TracedCall trace("flush", *target.file);
  const bool whole = std::exchange(target.truncate_called, false);
  if (target.routed == nullptr || closing || !whole) return trace.ended(0);
  return trace.ended(guarded(target.library, {"flush", Failure::kWrite},
                             [&] { return target.routed->flush_hint(); }));
}

// Makes the file on disk end where the addresses end.
herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
  OpenFile& target = open_file(file);
  TracedCall trace("truncate", *target.file, target.end_of_addresses);
  target.truncate_called = true;
  return trace.ended(guarded(target.library, {"truncate", Failure::kTruncate}, [&]() -> Status {
    if (target.end_of_file == target.end_of_addresses) return {};
    SCR_RETURN_IF_ERROR(target.file->truncate(target.end_of_addresses));
    target.end_of_file = target.end_of_addresses;
    return {};
  }));
}

// flock(), as sec2 does, so that a file opened with either driver is protected from the other; the
// locks of the file-system seam are of another kind and would not meet these.
Status change_lock(const OpenFile& file, int operation, const char* tried) {
  const int descriptor = file.file->descriptor();
  if (descriptor < 0) return {};  // in a container or on another node: read-only, and unchanging
  if (::flock(descriptor, operation) == 0) {
    if (file.routed != nullptr) file.routed->note_lock(operation & (LOCK_SH | LOCK_EX));
    return {};
  }
  const int why = errno;
  if (why == ENOSYS && file.ignore_disabled_locks) return {};
  const char* advice = why == EWOULDBLOCK
                           ? "another open of the file conflicts with this one; close it first"
                           : "if the file system has no locks, set HDF5_USE_FILE_LOCKING=FALSE";
  return {StatusCode::kUnavailable,
          fmt::format("unable to {} file '{}': {}; {}", tried, file.file->path(),
                      std::strerror(why), advice),
          why};
}

// Takes a lock, exclusive for writers and shared for readers, without waiting. HDF5 does not call
// this when locking is off.
herr_t lock(H5FD_t* file, hbool_t exclusive) {
  OpenFile& target = open_file(file);
  TracedCall trace("lock", *target.file);
  return trace.ended(guarded(target.library, {"lock", Failure::kLock}, [&] {
    return change_lock(target, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB, "lock");
  }));
}

// HDF5 gives up the lock of an open file only to let readers in: H5Fstart_swmr_write().
herr_t unlock(H5FD_t* file) {
  OpenFile& target = open_file(file);
  TracedCall trace("unlock", *target.file);
  return trace.ended(guarded(target.library, {"unlock", Failure::kUnlock}, [&] {
    return target.routed != nullptr ? routing::no_swmr(target.file->path())
                                    : change_lock(target, LOCK_UN, "unlock");
  }));
}

#ifdef H5SCR_HDF5_PLUGIN
// Removes a file that is not open.
herr_t remove(const char* name, hid_t fapl_id) {
  Hdf5Library* const library = Hdf5Library::of_caller(__builtin_return_address(0));
  if (library == nullptr) return -1;
  library->prepare_errors();
  TracedCall trace("delete", name);
  if (is_parallel(*library, fapl_id)) return trace.ended(remove_parallel(*library, name, fapl_id));
  return trace.ended(guarded(*library, {"delete", Failure::kDelete},
                             [&] { return routing::Session::process().remove(name); }));
}

// Special requests. None is known; an unknown one fails only if the caller insists.
herr_t control(H5FD_t* file, std::uint64_t request, std::uint64_t flags, const void*, void**) {
  OpenFile& target = open_file(file);
  return guarded(target.library, {"ctl", Failure::kControl}, [&]() -> Status {
    if ((flags & H5FD_CTL_FAIL_IF_UNKNOWN_FLAG) == 0) return {};
    return invalid_argument(
        fmt::format("cannot do request {}: the driver does not know it", request));
  });
}

#endif

// HDF5 closes, and with it all ids that we hold. A process by itself flushes what it wrote; it may
// open HDF5 again.
herr_t terminate() {
  try {
    routing::Session& session = routing::Session::process();
    if (!session.attached()) session.finish();
  } catch (const std::exception& error) {  // must not reach C code
    log::error("while HDF5 closes: {}", error.what());
  }
  Hdf5Library* const library = Hdf5Library::of_caller(__builtin_return_address(0));
  if (library != nullptr) library->forget_ids();
  return 0;
}

}  // namespace

const H5FD_class_t kDriverClass = {
#ifdef H5SCR_HDF5_PLUGIN
    .version = H5FD_CLASS_VERSION,
    .value = H5FD_SCR_VALUE,
#endif
    .name = H5FD_SCR_NAME,
    .maxaddr = kLargestAddress,
    .fc_degree = H5F_CLOSE_WEAK,
    .terminate = terminate,
    .sb_size = nullptr,  // the superblock names no driver: any other reads the file
    .sb_encode = nullptr,
    .sb_decode = nullptr,
    .fapl_size = 0,
    .fapl_get = nullptr,
    .fapl_copy = nullptr,
    .fapl_free = nullptr,
    .dxpl_size = 0,
    .dxpl_copy = nullptr,
    .dxpl_free = nullptr,
    .open = open,
    .close = close,
    .cmp = compare,
    .query = query,
    .get_type_map = nullptr,
    .alloc = nullptr,
    .free = nullptr,
    .get_eoa = get_end_of_addresses,
    .set_eoa = set_end_of_addresses,
    .get_eof = get_end_of_file,
    .get_handle = get_handle,
    .read = read,
    .write = write,
#ifdef H5SCR_HDF5_PLUGIN
    .read_vector = nullptr,
    .write_vector = nullptr,
    .read_selection = nullptr,
    .write_selection = nullptr,
#endif
    .flush = flush,
    .truncate = truncate,
    .lock = lock,
    .unlock = unlock,
#ifdef H5SCR_HDF5_PLUGIN
    .del = remove,
    .ctl = control,
#endif
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

}  // namespace scr::vfd
