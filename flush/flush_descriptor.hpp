// FlushDescriptor: where the files of a rank go in the prefix directory, as kept in its filemap
// (FLUSHDESC) from the moment the dataset is complete, so that a copy without MPI (scr_copy) lays
// them out as a flush does. Format: docs/formats/filemap.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/filemap.hpp"
#include "flush/containers.hpp"

namespace scr::flush {

// How the data of a dataset lies in the prefix directory: as files, or in containers.
struct Layout {
  std::uint64_t container_size = 0;  // 0: plain files
  std::uint64_t container_parity = 0;

  bool containers() const { return container_size > 0; }
  // As the intent says it: "FILES", or "CONTAINERS <size> <parity>".
  std::string to_text() const;
  static Result<Layout> from_text(const std::string& text);
  bool operator==(const Layout&) const = default;
};

// Does a rank's file lie in containers? Logs of shared files never do: what they become does.
bool lies_in_container(const Layout& layout, const FileMeta& meta);

// A file that a rank lists in the prefix directory.
struct FinalFile {
  std::string name;
  std::uint64_t size = 0;
  bool shared = false;  // made of logs
};
// What becomes of the files of a rank, in the order in which a flush lays them out: all logs of a
// shared file are one, which the rank with the first log has behind its own.
std::vector<FinalFile> final_files(const std::vector<FileMeta>& files);

struct FlushDescriptor {
  Layout layout;
  bool keep_newer = false;                               // as in FlushOptions
  std::map<std::string, std::vector<Segment>> segments;  // by final file; none for plain files

  Hash to_hash() const;
  // That of a filemap entry. In containers every final file of the entry has segments that hold its
  // size, lie inside containers and have the containers' names; else kCorrupt.
  static Result<FlushDescriptor> of(const FilemapEntry& entry);
  bool operator==(const FlushDescriptor&) const = default;
};

}  // namespace scr::flush
