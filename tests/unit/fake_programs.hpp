// Commands of batch systems and remote shells that are not there: scripts in front of PATH, which
// write down how they were called.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/temporary_directory.hpp"

namespace scr::testing {

class FakePrograms {
 public:
  FakePrograms() : path_(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "") {
    // What the scripts need, and nothing else: no remote shell of this machine is found.
    for (const char* name : {"sh", "env", "cat"}) {
      for (const char* folder : {"/bin/", "/usr/bin/"}) {
        std::error_code ignored;
        if (std::filesystem::exists(folder + std::string(name)))
          std::filesystem::create_symlink(folder + std::string(name), directory_ / name, ignored);
      }
    }
    ::setenv("PATH", directory_.path().c_str(), 1);
  }
  ~FakePrograms() { ::setenv("PATH", path_.c_str(), 1); }
  FakePrograms(const FakePrograms&) = delete;
  FakePrograms& operator=(const FakePrograms&) = delete;

  // A program whose script is `script` after it has written its arguments down.
  void add(const std::string& name, const std::string& script) {
    const std::string file = directory_ / name;
    std::ofstream(file) << "#!/bin/sh\nfor word in \"$@\"; do printf '%s\\n' \"$word\"; done > '"
                        << file << ".called'\n"
                        << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  // The arguments of its last call.
  std::vector<std::string> called(const std::string& name) const {
    std::ifstream in(directory_ / (name + ".called"));
    std::vector<std::string> words;
    for (std::string word; std::getline(in, word);) words.push_back(word);
    return words;
  }

 private:
  std::string path_;
  TemporaryDirectory directory_;
};

}  // namespace scr::testing
