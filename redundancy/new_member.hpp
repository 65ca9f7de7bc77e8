// NewMember: the files of a lost member as they come into being.
//
// They are written under temporary names, ".rebuild.<set>.<member>.<n>" in the member's directory,
// and get their own names only when all of them are verified and all processes of the set agree.
// Temporary files that are left are removed on destruction.
#pragma once

#include "redundancy/pass.hpp"
#include "redundancy/redundancy.hpp"

namespace scr::redundancy {

class NewMember {
 public:
  // `header` is that of the new redundancy file, but for the checksum of its payload.
  NewMember(FileSystem& fs, HostedMember& member, RedundancyHeader header);
  ~NewMember();
  NewMember(const NewMember&) = delete;
  NewMember& operator=(const NewMember&) = delete;

  // Says in the hosted member's content what will be there, has it registered, and opens the new
  // files.
  Status create(LocalMember& local, RegisterFiles register_files, void* context);
  // After the pass: compares all checksums with the metadata, and completes the redundancy file.
  Status finish(LocalMember& local);
  // Gives the files their names.
  Status publish();

 private:
  std::string temporary_name(std::size_t file) const;
  Status publish(const std::string& name, std::size_t file);

  FileSystem& fs_;
  HostedMember& member_;
  RedundancyHeader header_;
  std::size_t header_length_ = 0;
  std::size_t created_ = 0;  // temporary files that may exist: the first ones, by number
};

}  // namespace scr::redundancy
