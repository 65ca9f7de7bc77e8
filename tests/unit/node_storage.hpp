// Nodes with storage of their own, in a directory that all of them are given.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/unit/forwarding_filesystem.hpp"

namespace scr::testing {

// Control and cache directory of a node, which lie beside those of others here.
class NodeStorage : public ForwardingFileSystem {
 public:
  NodeStorage(std::string root, int node) : root_(std::move(root)), node_(node) {
    for (const char* name : {"/control", "/cache"})
      std::filesystem::create_directory(here(At(root_ + name)).path);
  }

  Result<std::unique_ptr<File>> open(const At& at, const OpenOptions& options) override {
    return ForwardingFileSystem::open(here(at), options);
  }
  Result<std::unique_ptr<Directory>> open_directory(const At& at, bool no_follow) override {
    return ForwardingFileSystem::open_directory(here(at), no_follow);
  }
  Result<FileInfo> info(const At& at, bool follow) override {
    return ForwardingFileSystem::info(here(at), follow);
  }
  Status make_directory(const At& at, mode_t mode) override {
    return ForwardingFileSystem::make_directory(here(at), mode);
  }
  Result<std::vector<DirectoryEntry>> list(const At& at) override {
    return ForwardingFileSystem::list(here(at));
  }
  Status sync_directory(const At& at) override {
    return ForwardingFileSystem::sync_directory(here(at));
  }

 private:
  At here(const At& at) const {
    for (const char* name : {"/control", "/cache"}) {
      const std::string base = root_ + name;
      if (at.directory != nullptr || (at.path != base && !at.path.starts_with(base + "/")))
        continue;
      return {fmt::format("{}.node{}{}", base, node_, at.path.substr(base.size()))};
    }
    return at;
  }

  std::string root_;
  int node_;
};

}  // namespace scr::testing
