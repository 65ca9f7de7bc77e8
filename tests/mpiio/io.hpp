// The part of MPI-IO that random_io needs, in two versions: MPI's own, and a model that does the
// same by its definition in the standard, slowly, with MPI_Pack and plain files. The libraries are
// no good as the only measure: OMPIO of Open MPI 4.1 divides by zero when a datatype is empty, and
// its ROMIO hangs in some split collective calls.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/cluster/random_datatype.hpp"

namespace scr::test {

inline void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::fprintf(stderr, "random_io: %s: %s\n", what, text);
  MPI_Abort(MPI_COMM_WORLD, 3);
}
#define CHECK(call) ::scr::test::check(call, #call)

enum class Way {
  kAt,
  kIndividual,
  kStartAt,
  kStart,  // alone
  kAtAll,
  kAll,
  kSplitAt,
  kSplit,
  kStartAtAll,
  kStartAll,  // together
  kShared,
  kStartShared,
  kOrdered,
  kSplitOrdered
};

struct Transfer {
  Way way;
  bool write;
  MPI_Offset offset;  // for those with explicit offsets
  void* buffer;
  int count;
  MPI_Datatype type;
};

class Io {
 public:
  virtual ~Io() = default;
  virtual void open(MPI_Comm comm, const std::string& name, int amode) = 0;
  virtual void close() = 0;
  virtual int amode() = 0;
  virtual int members() = 0;
  virtual void set_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype) = 0;
  struct ViewShape {
    MPI_Offset displacement;
    MPI_Count etype_size, filetype_size, filetype_extent;
  };
  virtual ViewShape get_view() = 0;
  virtual void transfer(const Transfer& t, MPI_Status& status) = 0;
  virtual void set_size(MPI_Offset size) = 0;
  virtual void preallocate(MPI_Offset size) = 0;
  virtual MPI_Offset get_size() = 0;
  virtual void sync() = 0;
  virtual void seek(MPI_Offset offset, int whence) = 0;
  virtual void seek_shared(MPI_Offset offset, int whence) = 0;
  virtual MPI_Offset position() = 0;
  virtual MPI_Offset shared_position() = 0;
  virtual MPI_Offset byte_offset(MPI_Offset offset) = 0;
  virtual int set_atomicity(int atomic) = 0;
};

// -------------------------------------------------------------------------------------------------

class MpiIo final : public Io {
 public:
  void open(MPI_Comm comm, const std::string& name, int amode) override {
    CHECK(MPI_File_open(comm, name.c_str(), amode, MPI_INFO_NULL, &file_));
  }
  void close() override {
    CHECK(MPI_File_close(&file_));
    if (file_ != MPI_FILE_NULL) check(MPI_ERR_FILE, "the handle of a closed file");
  }
  int amode() override {
    int amode = 0;
    CHECK(MPI_File_get_amode(file_, &amode));
    return amode;
  }
  int members() override {
    MPI_Group group = MPI_GROUP_NULL;
    CHECK(MPI_File_get_group(file_, &group));
    int members = 0;
    MPI_Group_size(group, &members);
    MPI_Group_free(&group);
    return members;
  }
  void set_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype) override {
    CHECK(MPI_File_set_view(file_, displacement, etype, filetype, "native", MPI_INFO_NULL));
  }
  ViewShape get_view() override {
    MPI_Offset displacement = 0;
    MPI_Datatype etype = MPI_DATATYPE_NULL;
    MPI_Datatype filetype = MPI_DATATYPE_NULL;
    char representation[MPI_MAX_DATAREP_STRING];
    CHECK(MPI_File_get_view(file_, &displacement, &etype, &filetype, representation));
    if (std::string(representation) != "native") check(MPI_ERR_OTHER, "data representation");
    MPI_Aint extent = 0;
    CHECK(MPI_File_get_type_extent(file_, filetype, &extent));
    const ViewShape shape = {displacement, Shape(etype).size, Shape(filetype).size, extent};
    for (MPI_Datatype* type : {&etype, &filetype}) {
      int integers = 0, addresses = 0, types = 0, combiner = 0;
      MPI_Type_get_envelope(*type, &integers, &addresses, &types, &combiner);
      if (combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_REAL &&
          combiner != MPI_COMBINER_F90_COMPLEX && combiner != MPI_COMBINER_F90_INTEGER)
        MPI_Type_free(type);
    }
    return shape;
  }
  void transfer(const Transfer& t, MPI_Status& status) override {
    if (t.write) {
      write(t, status);
    } else {
      read(t, status);
    }
  }
  void set_size(MPI_Offset size) override { CHECK(MPI_File_set_size(file_, size)); }
  void preallocate(MPI_Offset size) override { CHECK(MPI_File_preallocate(file_, size)); }
  MPI_Offset get_size() override { return get(MPI_File_get_size); }
  void sync() override { CHECK(MPI_File_sync(file_)); }
  void seek(MPI_Offset offset, int whence) override { CHECK(MPI_File_seek(file_, offset, whence)); }
  void seek_shared(MPI_Offset offset, int whence) override {
    CHECK(MPI_File_seek_shared(file_, offset, whence));
  }
  MPI_Offset position() override { return get(MPI_File_get_position); }
  MPI_Offset shared_position() override { return get(MPI_File_get_position_shared); }
  MPI_Offset byte_offset(MPI_Offset offset) override {
    MPI_Offset byte = 0;
    CHECK(MPI_File_get_byte_offset(file_, offset, &byte));
    return byte;
  }
  int set_atomicity(int atomic) override {
    CHECK(MPI_File_set_atomicity(file_, atomic));
    int now = -1;
    CHECK(MPI_File_get_atomicity(file_, &now));
    return now;
  }

 private:
  template <typename Function>
  MPI_Offset get(Function function) {
    MPI_Offset value = 0;
    check(function(file_, &value), "asking for a number");
    return value;
  }

#define SCR_TRANSFERS(verb)                                                                        \
  MPI_Request r;                                                                                   \
  switch (t.way) {                                                                                 \
    case Way::kAt:                                                                                 \
      return CHECK(MPI_File_##verb##_at(file_, t.offset, t.buffer, t.count, t.type, &status));     \
    case Way::kIndividual:                                                                         \
      return CHECK(MPI_File_##verb(file_, t.buffer, t.count, t.type, &status));                    \
    case Way::kStartAt:                                                                            \
      CHECK(MPI_File_i##verb##_at(file_, t.offset, t.buffer, t.count, t.type, &r));                \
      return CHECK(MPI_Wait(&r, &status));                                                         \
    case Way::kStart:                                                                              \
      CHECK(MPI_File_i##verb(file_, t.buffer, t.count, t.type, &r));                               \
      return CHECK(MPI_Wait(&r, &status));                                                         \
    case Way::kAtAll:                                                                              \
      return CHECK(MPI_File_##verb##_at_all(file_, t.offset, t.buffer, t.count, t.type, &status)); \
    case Way::kAll:                                                                                \
      return CHECK(MPI_File_##verb##_all(file_, t.buffer, t.count, t.type, &status));              \
    case Way::kSplitAt:                                                                            \
      CHECK(MPI_File_##verb##_at_all_begin(file_, t.offset, t.buffer, t.count, t.type));           \
      return CHECK(MPI_File_##verb##_at_all_end(file_, t.buffer, &status));                        \
    case Way::kSplit:                                                                              \
      CHECK(MPI_File_##verb##_all_begin(file_, t.buffer, t.count, t.type));                        \
      return CHECK(MPI_File_##verb##_all_end(file_, t.buffer, &status));                           \
    case Way::kStartAtAll:                                                                         \
      CHECK(MPI_File_i##verb##_at_all(file_, t.offset, t.buffer, t.count, t.type, &r));            \
      return CHECK(MPI_Wait(&r, &status));                                                         \
    case Way::kStartAll:                                                                           \
      CHECK(MPI_File_i##verb##_all(file_, t.buffer, t.count, t.type, &r));                         \
      return CHECK(MPI_Wait(&r, &status));                                                         \
    case Way::kShared:                                                                             \
      return CHECK(MPI_File_##verb##_shared(file_, t.buffer, t.count, t.type, &status));           \
    case Way::kStartShared:                                                                        \
      CHECK(MPI_File_i##verb##_shared(file_, t.buffer, t.count, t.type, &r));                      \
      return CHECK(MPI_Wait(&r, &status));                                                         \
    case Way::kOrdered:                                                                            \
      return CHECK(MPI_File_##verb##_ordered(file_, t.buffer, t.count, t.type, &status));          \
    case Way::kSplitOrdered:                                                                       \
      CHECK(MPI_File_##verb##_ordered_begin(file_, t.buffer, t.count, t.type));                    \
      return CHECK(MPI_File_##verb##_ordered_end(file_, t.buffer, &status));                       \
  }
  void write(const Transfer& t, MPI_Status& status) { SCR_TRANSFERS(write) }
  void read(const Transfer& t, MPI_Status& status){SCR_TRANSFERS(read)}
#undef SCR_TRANSFERS

  MPI_File file_ = MPI_FILE_NULL;
};

// -------------------------------------------------------------------------------------------------

inline void pack(const void* buffer, int count, MPI_Datatype type,
                 std::vector<unsigned char>& bytes) {
  int position = 0;
  if (bytes.empty()) return;
  MPI_Pack(buffer, count, type, bytes.data(), static_cast<int>(bytes.size()), &position,
           MPI_COMM_SELF);
}

// Which bytes of its span a filetype names, in its order: found by packing numbered bytes, one
// digit after the other.
inline std::vector<MPI_Offset> offsets_of(MPI_Datatype filetype) {
  const Shape shape(filetype);
  std::vector<MPI_Offset> offsets(static_cast<std::size_t>(shape.size), 0);
  std::vector<unsigned char> digits(static_cast<std::size_t>(shape.true_end()));
  std::vector<unsigned char> packed(offsets.size());
  for (int shift = 0; shift < 24; shift += 8) {
    for (std::size_t i = 0; i < digits.size(); ++i)
      digits[i] = static_cast<unsigned char>(i >> shift);
    pack(digits.data(), 1, filetype, packed);
    for (std::size_t i = 0; i < offsets.size(); ++i)
      offsets[i] |= static_cast<MPI_Offset>(packed[i]) << shift;
  }
  return offsets;
}

// The shared pointer is in a file beside the file.
class ModelIo final : public Io {
 public:
  void open(MPI_Comm comm, const std::string& name, int amode) override {
    comm_ = comm;
    MPI_Comm_rank(comm, &rank_);
    amode_ = amode;
    if (rank_ == 0) {
      ::close(::open(name.c_str(), O_RDWR | ((amode & MPI_MODE_CREATE) != 0 ? O_CREAT : 0), 0644));
      pointer_ = ::open((name + ".pointer").c_str(), O_RDWR | O_CREAT, 0600);
    }
    MPI_Barrier(comm_);
    if (rank_ != 0) pointer_ = ::open((name + ".pointer").c_str(), O_RDWR);
    file_ = ::open(name.c_str(), O_RDWR);
    if (file_ < 0 || pointer_ < 0) check(MPI_ERR_IO, "the model's open");
    MPI_Barrier(comm_);
    if (rank_ == 0) ::unlink((name + ".pointer").c_str());
    use_view(0, MPI_BYTE, MPI_BYTE);
    individual_ = (amode & MPI_MODE_APPEND) != 0 ? get_size() : 0;
    if (rank_ == 0) set_shared(individual_);
    MPI_Barrier(comm_);
  }
  void close() override {
    MPI_Barrier(comm_);
    ::close(file_);
    ::close(pointer_);
  }
  int amode() override { return amode_; }
  int members() override {
    int size = 0;
    MPI_Comm_size(comm_, &size);
    return size;
  }
  void set_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype) override {
    MPI_Barrier(comm_);
    use_view(displacement, etype, filetype);
    individual_ = 0;
    if (rank_ == 0) set_shared(0);
    MPI_Barrier(comm_);
  }
  ViewShape get_view() override {
    return {displacement_, etype_, static_cast<MPI_Count>(tile_.size()), extent_};
  }
  void transfer(const Transfer& t, MPI_Status& status) override {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(t.count * Shape(t.type).size));
    const auto length = static_cast<MPI_Offset>(bytes.size());
    const MPI_Offset first = place(t, length / etype_) * etype_;
    int position = 0;
    if (t.write) pack(t.buffer, t.count, t.type, bytes);
    for (MPI_Offset i = 0; i < length;) {
      const MPI_Offset start = offset_of(first + i);
      MPI_Offset n = 1;
      while (i + n < length && offset_of(first + i + n) == start + n) ++n;
      const auto size = static_cast<std::size_t>(n);
      const ssize_t moved = t.write ? ::pwrite(file_, bytes.data() + i, size, start)
                                    : ::pread(file_, bytes.data() + i, size, start);
      if (moved != n) check(MPI_ERR_IO, "the model's transfer");
      i += n;
    }
    if (!t.write && length > 0)
      MPI_Unpack(bytes.data(), static_cast<int>(length), &position, t.buffer, t.count, t.type,
                 MPI_COMM_SELF);
    MPI_Status_set_elements_x(&status, MPI_BYTE, length);
  }
  void set_size(MPI_Offset size) override {
    MPI_Barrier(comm_);
    if (rank_ == 0 && ::ftruncate(file_, size) != 0) check(MPI_ERR_IO, "the model's set_size");
    MPI_Barrier(comm_);
  }
  void preallocate(MPI_Offset size) override { set_size(std::max(size, get_size_of_all())); }
  MPI_Offset get_size() override {
    struct stat info {};
    ::fstat(file_, &info);
    return info.st_size;
  }
  void sync() override { MPI_Barrier(comm_); }
  void seek(MPI_Offset offset, int whence) override {
    individual_ = whence == MPI_SEEK_SET ? offset : individual_ + offset;
  }
  void seek_shared(MPI_Offset offset, int /*whence*/) override {
    MPI_Barrier(comm_);
    if (rank_ == 0) set_shared(offset);
    MPI_Barrier(comm_);
  }
  MPI_Offset position() override { return individual_; }
  MPI_Offset shared_position() override {
    MPI_Offset value = 0;
    if (::pread(pointer_, &value, sizeof value, 0) < 0) check(MPI_ERR_IO, "the model's pointer");
    return value;
  }
  MPI_Offset byte_offset(MPI_Offset offset) override { return offset_of(offset * etype_); }
  int set_atomicity(int atomic) override {
    MPI_Barrier(comm_);
    return atomic;
  }

 private:
  MPI_Offset get_size_of_all() {
    MPI_Barrier(comm_);
    return get_size();
  }
  void set_shared(MPI_Offset value) {
    if (::pwrite(pointer_, &value, sizeof value, 0) < 0) check(MPI_ERR_IO, "the model's pointer");
  }

  void use_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype) {
    displacement_ = displacement;
    etype_ = Shape(etype).size;
    extent_ = Shape(filetype).extent;
    tile_ = offsets_of(filetype);
  }
  MPI_Offset offset_of(MPI_Offset position) const {
    const auto size = static_cast<MPI_Offset>(tile_.size());
    return displacement_ + position / size * extent_ +
           tile_[static_cast<std::size_t>(position % size)];
  }

  // In etypes.
  MPI_Offset place(const Transfer& t, MPI_Offset etypes) {
    switch (t.way) {
      case Way::kIndividual:
      case Way::kStart:
      case Way::kAll:
      case Way::kSplit:
      case Way::kStartAll:
        individual_ += etypes;
        return individual_ - etypes;
      case Way::kShared:
      case Way::kStartShared: {
        const MPI_Offset first = shared_position();
        set_shared(first + etypes);
        return first;
      }
      case Way::kOrdered:
      case Way::kSplitOrdered: {
        long long mine = etypes;
        long long upto = 0;
        long long all = 0;
        MPI_Scan(&mine, &upto, 1, MPI_LONG_LONG, MPI_SUM, comm_);
        MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, comm_);
        const MPI_Offset first = shared_position();
        MPI_Barrier(comm_);
        if (rank_ == 0) set_shared(first + all);
        return first + upto - mine;
      }
      default:
        return t.offset;
    }
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int amode_ = 0;
  int file_ = -1;
  int pointer_ = -1;
  MPI_Offset displacement_ = 0;
  MPI_Offset etype_ = 1;
  MPI_Offset extent_ = 1;
  std::vector<MPI_Offset> tile_;  // offset of each byte in a filetype
  MPI_Offset individual_ = 0;
};

}  // namespace scr::test
