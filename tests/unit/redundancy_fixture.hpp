// A redundancy set of threads and directories: files are written, encoded, lost, damaged and
// rebuilt.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "core/base/checksum.hpp"
#include "core/base/filesystem.hpp"
#include "core/mpi/in_process_communicator.hpp"
#include "redundancy/redundancy.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::redundancy::testing {

using Sizes = std::vector<std::vector<std::size_t>>;  // of the files of each member
using Snapshot = std::map<std::string, std::string>;  // relative path to content

inline RedundancySet make_set(Scheme scheme, int size, int failures) {
  RedundancySet set;
  set.scheme = scheme;
  set.failures = failures;
  for (int i = 0; i < size; ++i) set.members.push_back({i, "node" + std::to_string(i), false});
  return set;
}

inline std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::uint32_t crc_of(const std::string& bytes) {
  return crc32(std::as_bytes(std::span(bytes)));
}

class TestSet {
 public:
  // Rank i of the world is member i. Every second file lies in a folder.
  TestSet(RedundancySet of, const Sizes& sizes, std::size_t piece_size)
      : set(std::move(of)), options{piece_size} {
    dataset.id = 6;
    dataset.name = "ckpt.6";
    dataset.created = 1700000000000000;
    dataset.checkpoint = 6;
    dataset.ranks = set.size();
    for (int i = 0; i < set.size(); ++i) {
      std::filesystem::create_directory(directory(i));
      directories_.push_back(real_file_system().open_directory(directory(i).string()).value());
      MemberFiles member;
      member.index = i;
      for (std::size_t f = 0; f < sizes[static_cast<std::size_t>(i)].size(); ++f) {
        member.files.push_back(write_file(i, f, sizes[static_cast<std::size_t>(i)][f]));
      }
      members.push_back(member);
    }
  }

  std::filesystem::path directory(int member) const {
    return root_.path() / std::to_string(member);
  }
  std::filesystem::path redundancy_file(int member) const {
    return directory(member) / set.file_name(member);
  }

  Snapshot snapshot(int member) const {
    Snapshot files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory(member))) {
      if (!entry.is_regular_file()) continue;
      files[entry.path().lexically_relative(directory(member)).string()] = read_bytes(entry.path());
    }
    return files;
  }
  std::vector<Snapshot> snapshots() const {
    std::vector<Snapshot> all;
    for (int i = 0; i < set.size(); ++i) all.push_back(snapshot(i));
    return all;
  }
  void restore(const std::vector<Snapshot>& before) {
    for (int i = 0; i < set.size(); ++i) {
      lose(i);
      for (const auto& [name, bytes] : before[static_cast<std::size_t>(i)]) {
        write_bytes(directory(i) / name, bytes);
      }
    }
  }
  // The directory stays, as on a spare node.
  void lose(int member) {
    for (const auto& entry : std::filesystem::directory_iterator(directory(member))) {
      std::filesystem::remove_all(entry.path());
    }
  }

  // `faulty` takes the place of the file system of one member.
  std::vector<Status> encode(int faulty_member = -1, FileSystem* faulty = nullptr) {
    std::vector<Status> result(members.size());
    InProcessWorld::run(set.size(), [&](Communicator& comm) {
      const auto i = static_cast<std::size_t>(comm.rank());
      FileSystem& fs = comm.rank() == faulty_member ? *faulty : real_file_system();
      result[i] = redundancy::encode(comm, fs, *directories_[i], dataset, set, members[i], options);
    });
    return result;
  }
  void encode_all() {
    for (const Status& status : encode()) ASSERT_TRUE(status.ok()) << status.to_string();
  }

  struct Outcome {
    std::vector<Status> status;  // of each process
    std::vector<RebuildResult> result;
    std::vector<HostedMember> member;  // of each member
    bool ok() const {
      return std::ranges::all_of(status, [](const Status& s) { return s.ok(); });
    }
  };
  struct Rebuild {
    std::vector<int> lost = {};
    std::vector<int> hosts = {};  // empty: member i at rank i
    bool verify_all = false;
    int faulty_rank = -1;
    FileSystem* faulty = nullptr;
  };
  Outcome rebuild(const Rebuild& request) {
    std::vector<int> hosts = request.hosts;
    for (int i = 0; request.hosts.empty() && i < set.size(); ++i) hosts.push_back(i);
    const int processes = std::ranges::max(hosts) + 1;
    Outcome outcome;
    outcome.status.resize(static_cast<std::size_t>(processes));
    outcome.result.resize(static_cast<std::size_t>(processes));
    outcome.member.resize(members.size());
    InProcessWorld::run(processes, [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      std::vector<HostedMember> mine = hosted_by(comm.rank(), hosts, request.lost);
      if (mine.empty()) return;
      FileSystem& fs = comm.rank() == request.faulty_rank ? *request.faulty : real_file_system();
      auto result = redundancy::rebuild(comm, fs, set, hosts, mine, request.verify_all,
                                        register_files, this, options);
      outcome.status[rank] = result.ok() ? Status() : result.status();
      if (result.ok()) outcome.result[rank] = *result;
      for (HostedMember& member : mine) {
        outcome.member[static_cast<std::size_t>(member.index)] = std::move(member);
      }
    });
    return outcome;
  }

  RedundancySet set;
  DatasetDescriptor dataset;
  std::vector<MemberFiles> members;
  EncodeOptions options;

 private:
  FileMeta write_file(int member, std::size_t number, std::size_t size) {
    FileMeta file;
    file.file = std::string(number % 2 == 0 ? "" : "folder/deep/") + "rank_" +
                std::to_string(member) + "." + std::to_string(number) + ".h5";
    file.complete = true;
    file.size = size;
    file.ranks = set.size();
    file.original = "/p/" + file.file;
    const auto seed = static_cast<unsigned>(member) * 100 + static_cast<unsigned>(number);
    write_bytes(directory(member) / file.file, random_bytes(size, seed));
    return file;
  }

  std::vector<HostedMember> hosted_by(int rank, const std::vector<int>& hosts,
                                      const std::vector<int>& lost) const {
    std::vector<HostedMember> mine;
    for (int i = 0; i < set.size(); ++i) {
      if (hosts[static_cast<std::size_t>(i)] != rank) continue;
      HostedMember member;
      member.index = i;
      member.present = std::ranges::find(lost, i) == lost.end();
      member.directory = directories_[static_cast<std::size_t>(i)].get();
      if (member.present) member.content = members[static_cast<std::size_t>(i)];
      mine.push_back(std::move(member));
    }
    return mine;
  }

  // Nothing of a member may be there under its own name when it is registered, if it was lost.
  static Status register_files(void* context, const HostedMember& member) {
    const auto* self = static_cast<const TestSet*>(context);
    const MemberFiles& expected = self->members[static_cast<std::size_t>(member.index)];
    EXPECT_EQ(member.content.files, expected.files);
    EXPECT_EQ(member.content.redundancy.file, expected.redundancy.file);
    EXPECT_EQ(member.content.redundancy.size, expected.redundancy.size);
    for (const FileMeta& file : member.content.files) {
      EXPECT_TRUE(member.present ||
                  !std::filesystem::exists(self->directory(member.index) / file.file));
    }
    return {};
  }

  ::scr::testing::TemporaryDirectory root_;
  std::vector<std::unique_ptr<Directory>> directories_;
};

inline std::vector<int> members_of(unsigned mask) {
  std::vector<int> members;
  for (int i = 0; mask >> static_cast<unsigned>(i) != 0; ++i) {
    if ((mask >> static_cast<unsigned>(i) & 1U) != 0) members.push_back(i);
  }
  return members;
}

}  // namespace scr::redundancy::testing
