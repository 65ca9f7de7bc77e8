// Reading HDF5 files for commands: what is in them, whether all of it can be read, how two differ.
//
// The implementation is libscr_hdf5_reader.so, the only part of the commands that is linked with
// HDF5. It is loaded when it is needed (tools/index/hdf5_worker.hpp), so that commands also work
// where HDF5 is missing. Files come from a FileSource through a read-only driver of ours: they may
// be in containers or in the cache, and a file can lead HDF5 only to files that the source has.
//
// Nothing here may be trusted to survive a damaged file: libhdf5 may crash or run for ever. Call it
// in a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/filesystem.hpp"

namespace scr::vfd {

// Where files come from, by name: the file asked for, and those that its links lead to.
class FileSource {
 public:
  virtual ~FileSource() = default;
  virtual Result<std::unique_ptr<File>> open(const std::string& name) = 0;
};

using Shape = std::vector<std::uint64_t>;

struct Hdf5Value {
  enum class Kind { kNumber, kText, kOther };
  Kind kind = Kind::kOther;  // of the elements
  std::string text = {};     // "0.5", "K", "[1, 2, 3]"; long ones are cut
  bool scalar = true;        // one element
};

struct Hdf5Attribute {
  std::string name = {};
  std::string type = {};   // "float64", "string", "compound{x: float64, y: float64}"
  std::string shape = {};  // "" for one element, "{3, 4}", "null"
  Hdf5Value value = {};
};

struct Hdf5Object {
  enum class Kind { kGroup, kDataset, kDatatype, kSoftLink, kExternalLink, kOther };
  Kind kind = Kind::kOther;
  std::string path = {};    // "/a/b"
  std::string target = {};  // of a link, and of an object that was listed before under this name
  std::string type = {};    // of a dataset or named datatype
  std::string shape = {};   // "scalar", "null", "{3, 4}", "{0, 4} of {unlimited, 4}"
  std::string layout = {};  // "compact", "contiguous", "chunked 10x20", "virtual", "external"
  std::vector<std::string> filters = {};
  std::uint64_t stored = 0;  // bytes in the file
  std::vector<Hdf5Attribute> attributes = {};
};

inline std::string_view kind_name(Hdf5Object::Kind kind) {
  switch (kind) {
    case Hdf5Object::Kind::kGroup:
      return "group";
    case Hdf5Object::Kind::kDataset:
      return "dataset";
    case Hdf5Object::Kind::kDatatype:
      return "datatype";
    case Hdf5Object::Kind::kSoftLink:
      return "link";
    case Hdf5Object::Kind::kExternalLink:
      return "external link";
    case Hdf5Object::Kind::kOther:
      break;
  }
  return "object";
}

struct WalkOptions {
  bool attributes = true;
  bool read_data = false;  // every chunk of every dataset, through its filters
};

// Gets what a walk finds, as it goes.
class WalkSink {
 public:
  virtual ~WalkSink() = default;
  virtual void object(const Hdf5Object& object) = 0;
  virtual void problem(const std::string& text) = 0;  // damage
  virtual void note(const std::string& text) = 0;     // what could not be looked at, and why
  virtual void alive() = 0;                           // called now and then during long work
};

struct Difference {
  std::string path = {};
  std::string what = {};  // "only in the first", "types differ: int32, int64", "3 of 10 values ..."
};

class CompareSink {
 public:
  virtual ~CompareSink() = default;
  virtual void difference(const Difference& difference) = 0;
  virtual void compared(std::uint64_t objects) = 0;   // how many, at the end
  virtual void problem(const std::string& text) = 0;  // what could not be compared
  virtual void alive() = 0;
};

class Hdf5Reader {
 public:
  virtual ~Hdf5Reader() = default;
  virtual std::string version() = 0;  // of libhdf5
  virtual void walk(FileSource& source, const std::string& name, const WalkOptions& options,
                    WalkSink& sink) = 0;
  // The value of an attribute: `wanted` is "name", looked for on the root group, then as a scalar
  // dataset "/name", then on the groups and datasets below the root group; or "/path@name", or the
  // "/path" of a dataset with one element. Nothing if there is none.
  virtual Result<std::optional<Hdf5Value>> find_value(FileSource& source, const std::string& name,
                                                      const std::string& wanted) = 0;
  virtual void compare(FileSource& first, const std::string& first_name, FileSource& second,
                       const std::string& second_name, CompareSink& sink) = 0;
};

// What the library exports. The argument is kReaderVersion of the caller; null if it is another.
inline constexpr int kReaderVersion = 1;
inline constexpr const char* kReaderFunction = "scr_hdf5_reader";
using ReaderFunction = Hdf5Reader* (*)(int version);

}  // namespace scr::vfd
