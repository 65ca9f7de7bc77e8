#include "vfd/reader/source_driver.hpp"

#include <algorithm>
#include <limits>
#include <span>

namespace scr::vfd {
namespace {

constexpr auto kLargestAddress = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

// What a file access property list says of the driver; HDF5 copies it byte by byte.
struct DriverInfo {
  FileSource* source;
};

struct OpenFile : H5FD_t {
  OpenFile(std::unique_ptr<File> file_in, const FileInfo& info_in)
      : H5FD_t(), file(std::move(file_in)), info(info_in) {}
  std::unique_ptr<File> file;
  FileInfo info;
  haddr_t end_of_addresses = 0;
};

const OpenFile& open_file(const H5FD_t* file) { return *static_cast<const OpenFile*>(file); }

void push_error(const char* function, hid_t minor, const Status& status) {
  H5Epush2(H5E_DEFAULT, "h5scr", function, 0, H5E_ERR_CLS, H5E_VFL, minor, "%s",
           std::string(status.message()).c_str());
}

H5FD_t* open(const char* name, unsigned flags, hid_t fapl_id, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(fapl_id));
  if (info == nullptr || (flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0) {
    return nullptr;
  }
  auto file = info->source->open(name);
  auto found = file.ok() ? (*file)->info() : Result<FileInfo>(file.status());
  if (!found.ok()) {
    push_error("open", H5E_CANTOPENFILE, found.status());
    return nullptr;
  }
  return new OpenFile(*std::move(file), *found);
}

herr_t close(H5FD_t* file) {
  delete static_cast<OpenFile*>(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const FileInfo& first = open_file(a).info;
  const FileInfo& second = open_file(b).info;
  const std::pair one(first.device, first.inode);
  const std::pair other(second.device, second.inode);
  return one < other ? -1 : one > other ? 1 : 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE;
  return 0;
}

haddr_t get_end_of_addresses(const H5FD_t* file, H5FD_mem_t) {
  return open_file(file).end_of_addresses;
}

herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  static_cast<OpenFile*>(file)->end_of_addresses = address;
  return 0;
}

haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) { return open_file(file).info.size; }

// Bytes after the end of the file are zero, as with HDF5's own drivers.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* buffer) {
  if (address > kLargestAddress || size > kLargestAddress - address) return -1;
  const std::span bytes(static_cast<std::byte*>(buffer), size);
  const auto count = static_cast<OpenFile*>(file)->file->read(bytes, address);
  if (!count.ok()) {
    push_error("read", H5E_READERROR, count.status());
    return -1;
  }
  std::ranges::fill(bytes.subspan(*count), std::byte{0});
  return 0;
}

herr_t write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

const H5FD_class_t kDriverClass = {
    .version = H5FD_CLASS_VERSION,
    .value = static_cast<H5FD_class_value_t>(43922),  // beside that of the driver "scr"
    .name = "scr_reader",
    .maxaddr = kLargestAddress,
    .fc_degree = H5F_CLOSE_STRONG,
    .terminate = nullptr,
    .sb_size = nullptr,
    .sb_encode = nullptr,
    .sb_decode = nullptr,
    .fapl_size = sizeof(DriverInfo),
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
    .get_handle = nullptr,
    .read = read,
    .write = write,
    .read_vector = nullptr,
    .write_vector = nullptr,
    .read_selection = nullptr,
    .write_selection = nullptr,
    .flush = nullptr,
    .truncate = nullptr,
    .lock = nullptr,
    .unlock = nullptr,
    .del = nullptr,
    .ctl = nullptr,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

}  // namespace

Handle open_hdf5(FileSource& source, const std::string& name) {
  static const hid_t driver = H5FDregister(&kDriverClass);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const DriverInfo info{&source};
  if (H5Pset_driver(access, driver, &info) < 0 ||
      H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0) {
    return {};
  }
  return {H5Fopen(name.c_str(), H5F_ACC_RDONLY, access), H5Fclose};
}

}  // namespace scr::vfd
