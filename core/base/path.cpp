#include "core/base/path.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/checksum.hpp"
#include "core/base/text.hpp"

namespace scr {
namespace {

constexpr std::size_t kLongestPath = 4095;
constexpr std::size_t kLongestComponent = 255;

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

// What is wrong with one component; empty if nothing.
std::string_view component_fault(std::string_view component) {
  if (component.empty()) return "it has an empty component";
  if (component == "..") return "it has a '..' component";
  if (component == ".") return "it has a '.' component";
  if (component.size() > kLongestComponent) return "it has a component of more than 255 bytes";
  return {};
}

std::string_view path_fault(std::string_view path) {
  if (path.empty()) return "it is empty";
  if (path.size() > kLongestPath) return "it is longer than 4095 bytes";
  if (std::any_of(path.begin(), path.end(), is_control)) return "it has a control character";
  if (path.front() == '/') return "it is absolute";
  for (const std::string_view component : text::split(path, '/')) {
    if (const std::string_view fault = component_fault(component); !fault.empty()) return fault;
  }
  return {};
}

Status not_private(const std::string& path, std::string_view why) {
  return {
      StatusCode::kPermissionDenied,
      fmt::format("cannot keep private files in directory '{}': {}; remove it or choose another "
                  "base directory",
                  path, why)};
}

// `directory` is open already, so that nobody can put another one in its place after the check.
Status check_private(FileSystem& fs, const Directory& directory) {
  SCR_ASSIGN_OR_RETURN(const FileInfo found, fs.info(At(directory, ".")));
  if (found.uid != ::geteuid()) {
    return not_private(directory.path(), fmt::format("it is owned by user {}, and we are user {}",
                                                     found.uid, ::geteuid()));
  }
  if ((found.mode & 022U) != 0) {
    return not_private(directory.path(),
                       fmt::format("its mode {:04o} lets others write to it", found.mode));
  }
  return {};
}

Result<std::unique_ptr<Directory>> prepare_one(FileSystem& fs, const Directory& parent,
                                               std::string_view name) {
  const At at(parent, std::string(name));
  const Status made = fs.make_directory(at, 0700);
  if (!made.ok() && made.errno_value() != EEXIST) return made;
  Result<std::unique_ptr<Directory>> opened = fs.open_directory(at);
  if (!opened.ok()) {
    const int why = opened.status().errno_value();
    if (why == ELOOP) return not_private(at.display(), "it is a symbolic link");
    if (why == ENOTDIR) return not_private(at.display(), "it is not a directory");
    return opened.status();
  }
  SCR_RETURN_IF_ERROR(check_private(fs, **opened));
  return opened;
}

}  // namespace

Result<std::string> safe_relative_path(std::string_view path) {
  const std::string_view fault = path_fault(path);
  if (fault.empty()) return std::string(path);
  constexpr std::size_t kMostShown = 300;
  const bool cut = path.size() > kMostShown;
  return corrupt(fmt::format("unsafe path '{}{}': {}", text::escape(path.substr(0, kMostShown)),
                             cut ? "..." : "", fault));
}

std::string normalize(std::string_view path, std::string_view working_directory) {
  std::vector<std::string_view> kept;
  const auto walk = [&kept](std::string_view piece) {
    for (const std::string_view component : text::split(piece, '/')) {
      if (component.empty() || component == ".") continue;
      if (component != "..") {
        kept.push_back(component);
      } else if (!kept.empty()) {
        kept.pop_back();
      }
    }
  };
  if (!path.starts_with('/')) walk(working_directory);
  walk(path);
  return "/" + text::join(kept, "/");
}

Result<std::string> normalize(std::string_view path) {
  if (path.starts_with('/')) return normalize(path, "/");
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) return errno_status(error.value(), "find the working directory for", path);
  return normalize(path, here.native());
}

std::optional<std::string> relative_to(std::string_view path, std::string_view base) {
  if (path == base) return ".";
  if (!path.starts_with(base)) return std::nullopt;
  path.remove_prefix(base.size());
  if (base.ends_with('/')) return std::string(path);
  if (!path.starts_with('/')) return std::nullopt;
  return std::string(path.substr(1));
}

std::string parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string() : std::string(path.substr(0, slash));
}

std::string path_beside(const std::string& path, std::string_view beginning,
                        std::string_view ending) {
  const std::size_t slash = path.rfind('/');
  const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
  std::string name = path.substr(start);
  if (beginning.size() + name.size() + ending.size() > kLongestComponent) {
    const std::string sum = fmt::format(".{:08x}", crc32(std::as_bytes(std::span(name))));
    name.resize(kLongestComponent - beginning.size() - sum.size() - ending.size());
    name += sum;
  }
  return fmt::format("{}{}{}{}", path.substr(0, start), beginning, name, ending);
}

Result<std::unique_ptr<Directory>> prepare_private_directory(FileSystem& fs,
                                                             const std::string& base,
                                                             std::string_view below) {
  SCR_ASSIGN_OR_RETURN(const std::string safe, safe_relative_path(below));
  // The base is the user's or administrator's choice and may well be a symbolic link.
  SCR_ASSIGN_OR_RETURN(std::unique_ptr<Directory> directory, fs.open_directory(base, false));
  for (const std::string_view name : text::split(safe, '/')) {
    SCR_ASSIGN_OR_RETURN(directory, prepare_one(fs, *directory, name));
  }
  return directory;
}

}  // namespace scr
