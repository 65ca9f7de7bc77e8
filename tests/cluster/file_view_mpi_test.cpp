// File views against the MPI-IO of the library; a part of datatype_mpi_test.
#include "core/mpi/file_view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/cluster/random_datatype.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace scr::test {

extern std::uint64_t seed;

namespace {

using mpi::ByteRange;
using mpi::FileView;
using Bytes = std::vector<char>;

constexpr std::size_t kFileSize = 16384;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path) {
    MPI_File_open(MPI_COMM_SELF, path.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                  &file_);
  }
  ~OpenFile() { MPI_File_close(&file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  MPI_File get() const { return file_; }
  void fill(const Bytes& content) const {
    std::ofstream(path_, std::ios::binary | std::ios::in | std::ios::out | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  Bytes content() const {
    std::ifstream in(path_, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(in), {});
  }

 private:
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
};

Bytes random_bytes(std::size_t size, std::mt19937_64& random) {
  Bytes bytes(size);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void place(Bytes& file, const std::vector<ByteRange>& ranges, const Bytes& data) {
  std::size_t done = 0;
  for (const ByteRange& range : ranges) {
    if (file.size() < static_cast<std::size_t>(range.end())) {
      file.resize(static_cast<std::size_t>(range.end()));
    }
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(done), range.length,
                file.begin() + range.offset);
    done += range.length;
  }
}

void expect_coalesced(const std::vector<ByteRange>& ranges) {
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_NE(ranges[i - 1].end(), ranges[i].offset);
  }
}

// Writes and reads at one offset of a view that is set, and compares.
void expect_same_bytes(const OpenFile& file, const FileView& view, std::int64_t offset, int etypes,
                       std::mt19937_64& random) {
  const auto bytes = static_cast<std::size_t>(etypes) * view.etype_size();
  const auto ranges = view.map(offset, bytes);
  ASSERT_TRUE(ranges.ok()) << ranges.status().to_string();
  expect_coalesced(*ranges);
  Bytes expected = random_bytes(kFileSize, random);
  file.fill(expected);
  const Bytes data = random_bytes(bytes, random);
  ASSERT_EQ(MPI_File_write_at(file.get(), offset, data.data(), static_cast<int>(bytes), MPI_BYTE,
                              MPI_STATUS_IGNORE),
            MPI_SUCCESS);
  place(expected, *ranges, data);
  const Bytes found = file.content();
  const auto differ = std::ranges::mismatch(found, expected);
  ASSERT_TRUE(found == expected) << found.size() << " and " << expected.size()
                                 << " bytes, first at " << differ.in1 - found.begin() << "; "
                                 << bytes << " bytes at " << offset << ", first range "
                                 << ranges->front().offset << "+" << ranges->front().length
                                 << " of " << ranges->size();
}

void expect_same_places(const OpenFile& file, const FileView& view, std::int64_t offset) {
  MPI_Offset theirs = 0;
  MPI_File_get_byte_offset(file.get(), offset, &theirs);
  EXPECT_EQ(*view.byte_offset(offset), theirs);
  MPI_File_seek(file.get(), 0, MPI_SEEK_END);
  MPI_File_get_position(file.get(), &theirs);
  EXPECT_EQ(view.etypes_up_to(static_cast<std::int64_t>(file.content().size())), theirs);
}

TEST(FileViewDifferential, BytesGoWhereMpiIoPutsThem) {
  std::mt19937_64 random(seed);
  const testing::TemporaryDirectory directory;
  const OpenFile file(directory / "file");
  DatatypeMaker maker(random, DatatypeMaker::Use::kFile);
  int checked = 0;
  for (int round = 0; round < 2500 && failures() < 5; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const OwnedType base = maker.named();
    const OwnedType etype = maker.derive(maker.pick(0, 1), base.get());
    SCOPED_TRACE("etype " + maker.history());
    const OwnedType filetype = maker.derive(maker.pick(0, 4), etype.get());
    SCOPED_TRACE("filetype " + maker.history());
    const MPI_Offset displacement = maker.pick(0, 1) * maker.pick(0, 1000);
    const auto view = FileView::make(displacement, etype.get(), filetype.get());
    ASSERT_TRUE(view.ok()) << view.status().to_string();
    if (Shape(filetype.get()).size == 0) continue;
    EXPECT_FALSE(view->may_overlap());
    ASSERT_EQ(MPI_File_set_view(file.get(), displacement, etype.get(), filetype.get(), "native",
                                MPI_INFO_NULL),
              MPI_SUCCESS);
    const std::int64_t offset = maker.pick(0, 1) * maker.pick(0, 40);
    expect_same_bytes(file, *view, offset, maker.pick(1, 30), random);
    expect_same_places(file, *view, offset);
    ++checked;
  }
  std::printf("%d views compared with MPI-IO\n", checked);
  EXPECT_GT(checked, 1000);
}

// --- by hand -------------------------------------------------------------------------------------

OwnedType vector(int count, int length, int stride, MPI_Datatype part) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  PMPI_Type_vector(count, length, stride, part, &made);
  return OwnedType::derived(made);
}

OwnedType resized(MPI_Datatype part, MPI_Aint lower_bound, MPI_Aint extent) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  PMPI_Type_create_resized(part, lower_bound, extent, &made);
  return OwnedType::derived(made);
}

OwnedType hindexed(std::vector<MPI_Aint> at, MPI_Datatype part) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  PMPI_Type_create_hindexed_block(static_cast<int>(at.size()), 1, at.data(), part, &made);
  return OwnedType::derived(made);
}

TEST(FileView, AFreshViewIsTheWholeFile) {
  const FileView view;
  EXPECT_EQ(*view.map(1000, 24), (std::vector<ByteRange>{{1000, 24}}));
  EXPECT_EQ(*view.byte_offset(77), 77);
  EXPECT_EQ(view.etypes_up_to(123), 123);
  EXPECT_EQ(view.etype_size(), 1U);
  EXPECT_FALSE(view.may_overlap());
}

// xx..xx..|xx..xx..: ints, two and a gap of two.
TEST(FileView, PiecesAcrossRepetitionsAreFoundAndMadeOne) {
  const OwnedType strided = resized(vector(2, 2, 4, MPI_INT).get(), 0, 24);
  const auto view = FileView::make(100, MPI_INT, strided.get());
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(*view->map(1, 16), (std::vector<ByteRange>{{104, 4}, {116, 12}}));
  EXPECT_EQ(*view->map(3, 3), (std::vector<ByteRange>{{120, 3}}));
  EXPECT_TRUE(view->map(7, 0)->empty());
  EXPECT_EQ(*view->byte_offset(2), 116);
  EXPECT_EQ(*view->byte_offset(5), 128);
}

TEST(FileView, TheEndOfAFileCountsEtypesThatBeginInIt) {
  const OwnedType strided = resized(vector(2, 1, 2, MPI_INT).get(), 0, 16);
  const auto view = FileView::make(100, MPI_INT, strided.get());
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->etypes_up_to(0), 0);
  EXPECT_EQ(view->etypes_up_to(100), 0);
  EXPECT_EQ(view->etypes_up_to(101), 1);
  EXPECT_EQ(view->etypes_up_to(108), 1);
  EXPECT_EQ(view->etypes_up_to(109), 2);
  EXPECT_EQ(view->etypes_up_to(116), 2);
  EXPECT_EQ(view->etypes_up_to(117), 3);
}

TEST(FileView, OffsetsBeyond32BitsAreExact) {
  const OwnedType sparse = resized(MPI_DOUBLE, 0, MPI_Aint{1} << 33);
  const auto view = FileView::make(5, MPI_DOUBLE, sparse.get());
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(*view->map(1 << 20, 8), (std::vector<ByteRange>{{(std::int64_t{1} << 53) + 5, 8}}));
  EXPECT_EQ(view->etypes_up_to((std::int64_t{1} << 53) + 6), (1 << 20) + 1);
}

TEST(FileView, WhatNoFileHoldsIsRefused) {
  const OwnedType sparse = resized(MPI_DOUBLE, 0, MPI_Aint{1} << 33);
  const auto view = FileView::make(0, MPI_DOUBLE, sparse.get());
  ASSERT_TRUE(view.ok());
  EXPECT_FALSE(view->map(std::int64_t{1} << 30, 8).ok());
  EXPECT_FALSE(view->map((std::int64_t{1} << 30) - 1, 16).ok());
  EXPECT_FALSE(view->map(INT64_MAX, 8).ok());
  EXPECT_FALSE(view->map(-1, 8).ok());
  EXPECT_FALSE(view->byte_offset(-1).ok());
  EXPECT_FALSE(FileView().map(INT64_MAX, 8).ok());
}

TEST(FileView, AFiletypeWithoutBytesShowsNothing) {
  const OwnedType none = vector(0, 1, 1, MPI_INT);
  const auto view = FileView::make(8, MPI_INT, none.get());
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(view->map(0, 0)->empty());
  EXPECT_FALSE(view->map(0, 1).ok());
  EXPECT_EQ(view->etypes_up_to(1000), 0);
}

TEST(FileView, ErroneousViewsAreRefused) {
  const auto message = [](MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype) {
    const auto view = FileView::make(displacement, etype, filetype);
    return view.ok() ? std::string("accepted") : std::string(view.status().message());
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const OwnedType backwards = hindexed({8, 0}, MPI_INT);
  const OwnedType negative = hindexed({-4, 4}, MPI_INT);
  const OwnedType standing = resized(MPI_INT, 0, 0);
  EXPECT_TRUE(has(message(-1, MPI_BYTE, MPI_BYTE), "displacement (-1) is negative"));
  EXPECT_TRUE(has(message(0, MPI_DOUBLE, MPI_INT), "filetype (4 bytes) is not a whole number"));
  EXPECT_TRUE(has(message(0, MPI_INT, backwards.get()), "the filetype has a displacement (0)"));
  EXPECT_TRUE(has(message(0, MPI_INT, negative.get()), "the filetype has a displacement (-4)"));
  EXPECT_TRUE(has(message(0, negative.get(), negative.get()), "the etype has a displacement"));
  EXPECT_TRUE(has(message(0, MPI_INT, standing.get()), "extent of the filetype (0)"));
}

TEST(FileView, OverlapsAreTold) {
  const OwnedType twice = hindexed({0, 2}, MPI_INT);
  const OwnedType short_step = resized(MPI_INT, 0, 3);
  EXPECT_TRUE(FileView::make(0, MPI_INT, twice.get())->may_overlap());
  EXPECT_TRUE(FileView::make(0, MPI_INT, short_step.get())->may_overlap());
}

}  // namespace
}  // namespace scr::test
