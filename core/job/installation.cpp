#include "core/job/installation.hpp"

#include <dlfcn.h>

#include "core/base/filesystem.hpp"
#include "core/base/path.hpp"

namespace scr::job {
namespace {

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// The folder of the library that holds this function.
std::string library_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&find_installation), &info) == 0) return {};
  const auto path = normalize(info.dli_fname);
  return path.ok() ? folder_of(*path) : std::string();
}

Installation look() {
  FileSystem& fs = file_system();
  const auto has = [&fs](const std::string& path) { return fs.info(path, /*follow=*/true).ok(); };
  Installation found;
  found.lib = library_folder();
  if (auto self = fs.read_symlink("/proc/self/exe"); self.ok()) found.bin = folder_of(*self);
  // A program of the user's has its own folder; the commands are beside the library's.
  if (!has(found.bin + "/scr_check_node")) {
    found.bin = normalize(found.lib + "/../bin", "/");
  }
  for (const std::string& folder :
       {found.lib + "/h5scr/plugin", normalize(found.lib + "/../plugin", "/")}) {
    if (has(folder + "/libh5fd_scr.so")) {
      found.plugins = folder;
      break;
    }
  }
  return found;
}

}  // namespace

const Installation& find_installation() {
  static const Installation& found = *new Installation(look());
  return found;
}

}  // namespace scr::job
