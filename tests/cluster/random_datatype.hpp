// Random datatypes of MPI, nested, by every constructor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/mpi/datatype.hpp"

namespace scr::test {

// Failed checks of the running test, to stop after a few.
inline int failures() {
  return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
}

// A datatype that is freed with it, if it is one that can be.
class OwnedType {
 public:
  // Predefined types.
  explicit OwnedType(MPI_Datatype named) : handle_(named), derived_(false) {}
  // Takes over a new type.
  static OwnedType derived(MPI_Datatype made) {
    OwnedType type(made);
    type.derived_ = true;
    PMPI_Type_commit(&type.handle_);
    return type;
  }
  OwnedType(OwnedType&& other) noexcept
      : handle_(other.handle_), derived_(std::exchange(other.derived_, false)) {}
  OwnedType& operator=(OwnedType&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(derived_, other.derived_);
    return *this;
  }
  ~OwnedType() {
    if (derived_) PMPI_Type_free(&handle_);
  }
  MPI_Datatype get() const { return handle_; }

 private:
  MPI_Datatype handle_;
  bool derived_;
};

struct Shape {
  MPI_Count size = 0, lower_bound = 0, extent = 0, true_lower_bound = 0, true_extent = 0;
  explicit Shape(MPI_Datatype type) {
    PMPI_Type_size_x(type, &size);
    PMPI_Type_get_extent_x(type, &lower_bound, &extent);
    // Open MPI gives nonsense for types without data.
    if (size > 0) PMPI_Type_get_true_extent_x(type, &true_lower_bound, &true_extent);
  }
  MPI_Count true_end() const { return true_lower_bound + true_extent; }
};

// Memory for `count` elements of a type, whose origin is somewhere inside.
class Memory {
 public:
  Memory(MPI_Datatype type, int count, std::mt19937_64& random) {
    const Shape shape(type);
    const MPI_Count last = count > 0 ? (count - 1) * shape.extent : 0;
    const MPI_Count low =
        std::min<MPI_Count>({0, last, shape.true_lower_bound, shape.true_lower_bound + last});
    const MPI_Count high =
        std::max<MPI_Count>({0, last, shape.true_end(), shape.true_end() + last});
    origin_ = static_cast<std::size_t>(-low);
    bytes_.resize(static_cast<std::size_t>(high - low) + 1);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
  }
  std::byte* origin() { return bytes_.data() + origin_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t origin_ = 0;
};

class DatatypeMaker {
 public:
  enum class Use {
    kMemory,  // anything goes: parts may overlap, go backwards, have negative bounds
    kFile     // fit for a file view: from left to right, without overlaps
  };
  DatatypeMaker(std::mt19937_64& random, Use use) : random_(random), use_(use) {}

  // How many types were made by which constructor.
  const std::map<std::string, int>& made() const { return made_; }
  // How many MPI refused to make (Open MPI: some distributed arrays). Errors must return.
  int refused() const { return refused_; }
  // How the last type of derive() was made.
  const std::string& history() const { return history_; }

  OwnedType named() {
    // No long double: MPICH moves its ten bytes and leaves the other six. In files no types with
    // gaps of their own: ROMIO takes each for one block.
    static const std::vector<MPI_Datatype> kPlain = {MPI_BYTE, MPI_CHAR,   MPI_SHORT,
                                                     MPI_INT,  MPI_DOUBLE, MPI_2INT};
    static const std::vector<MPI_Datatype> kWithGaps = {
        MPI_BYTE, MPI_CHAR,      MPI_SHORT,      MPI_INT,      MPI_DOUBLE,
        MPI_2INT, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT};
    const auto& kNamed = in_file() ? kPlain : kWithGaps;
    if (pick(0, 15) == 0) return fortran90();
    ++made_["named"];
    return OwnedType(
        kNamed[static_cast<std::size_t>(pick(0, static_cast<int>(kNamed.size()) - 1))]);
  }

  // A type of up to `levels` constructors on top of `base` (which is copied).
  OwnedType derive(int levels, MPI_Datatype base) {
    MPI_Datatype copy = MPI_DATATYPE_NULL;
    PMPI_Type_dup(base, &copy);
    OwnedType type = OwnedType::derived(copy);
    history_ = "base";
    for (int i = 0; i < levels; ++i) {
      const std::string before = history_;
      OwnedType next = wrap(type, base);
      if (Shape(next.get()).size > 4096 || Shape(next.get()).true_extent > 65536) {
        history_ = before;
        break;
      }
      type = std::move(next);
    }
    return type;
  }

  int pick(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

 private:
  bool in_file() const { return use_ == Use::kFile; }

  OwnedType fortran90() {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    switch (pick(0, 2)) {
      case 0:
        PMPI_Type_create_f90_real(6, 30, &made);
        break;
      case 1:
        PMPI_Type_create_f90_complex(12, MPI_UNDEFINED, &made);
        break;
      default:
        PMPI_Type_create_f90_integer(8, &made);
    }
    ++made_["f90"];
    return OwnedType(made);
  }

  OwnedType wrap(const OwnedType& part, MPI_Datatype base) {
    using Maker = MPI_Datatype (DatatypeMaker::*)(MPI_Datatype, MPI_Datatype);
    static const std::vector<std::pair<const char*, Maker>> kMakers = {
        {"dup", &DatatypeMaker::dup},
        {"contiguous", &DatatypeMaker::contiguous},
        {"vector", &DatatypeMaker::vector},
        {"hvector", &DatatypeMaker::hvector},
        {"indexed", &DatatypeMaker::indexed},
        {"hindexed", &DatatypeMaker::hindexed},
        {"indexed_block", &DatatypeMaker::indexed_block},
        {"hindexed_block", &DatatypeMaker::hindexed_block},
        {"struct", &DatatypeMaker::structure},
        {"resized", &DatatypeMaker::resized},
        {"subarray", &DatatypeMaker::subarray},
        {"darray", &DatatypeMaker::darray},
    };
    const auto& [name, maker] =
        kMakers[static_cast<std::size_t>(pick(0, static_cast<int>(kMakers.size()) - 1))];
    MPI_Datatype made = (this->*maker)(part.get(), base);
    if (made == MPI_DATATYPE_NULL) {
      ++refused_;
      made = dup(part.get(), base);
    } else {
      ++made_[name];
      const Shape shape(made);
      history_ += std::string(" > ") + name + " (size " + std::to_string(shape.size) + ", bounds " +
                  std::to_string(shape.lower_bound) + "+" + std::to_string(shape.extent) +
                  ", data " + std::to_string(shape.true_lower_bound) + "+" +
                  std::to_string(shape.true_extent) + ")";
    }
    return OwnedType::derived(made);
  }

  // Numbers of elements: mostly some, sometimes none.
  int count() { return pick(0, 12) == 0 ? 0 : pick(1, 4); }

  // Displacements of blocks in units of `unit` bytes.
  template <typename Number>
  std::vector<Number> displacements(const std::vector<int>& lengths, Number unit, Number gap) {
    std::vector<Number> result;
    Number next = in_file() ? pick(0, 2) * gap : 0;
    for (const int length : lengths) {
      result.push_back(in_file() ? next : static_cast<Number>(pick(-12, 12)) * gap);
      next += length * unit + pick(0, 3) * gap;
    }
    return result;
  }
  std::vector<int> lengths() {
    std::vector<int> result(static_cast<std::size_t>(count()));
    for (int& length : result) length = count();
    return result;
  }

  MPI_Datatype dup(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    PMPI_Type_dup(part, &made);
    return made;
  }
  MPI_Datatype contiguous(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    PMPI_Type_contiguous(count(), part, &made);
    return made;
  }
  MPI_Datatype vector(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const int length = count();
    PMPI_Type_vector(count(), length, in_file() ? length + pick(0, 3) : pick(-6, 6), part, &made);
    return made;
  }
  MPI_Datatype hvector(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const int length = count();
    const MPI_Aint stride = in_file()
                                ? length * static_cast<MPI_Aint>(Shape(part).extent) + pick(0, 40)
                                : pick(-90, 90);
    PMPI_Type_create_hvector(count(), length, stride, part, &made);
    return made;
  }
  MPI_Datatype indexed(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const auto n = lengths();
    const auto at = displacements<int>(n, 1, 1);
    PMPI_Type_indexed(static_cast<int>(n.size()), n.data(), at.data(), part, &made);
    return made;
  }
  MPI_Datatype hindexed(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const auto n = lengths();
    const auto at = displacements<MPI_Aint>(n, static_cast<MPI_Aint>(Shape(part).extent), 5);
    PMPI_Type_create_hindexed(static_cast<int>(n.size()), n.data(), at.data(), part, &made);
    return made;
  }
  MPI_Datatype indexed_block(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const std::vector<int> n(static_cast<std::size_t>(count()), count());
    const auto at = displacements<int>(n, 1, 1);
    PMPI_Type_create_indexed_block(static_cast<int>(n.size()), n.empty() ? 1 : n[0], at.data(),
                                   part, &made);
    return made;
  }
  MPI_Datatype hindexed_block(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const std::vector<int> n(static_cast<std::size_t>(count()), count());
    const auto at = displacements<MPI_Aint>(n, static_cast<MPI_Aint>(Shape(part).extent), 7);
    PMPI_Type_create_hindexed_block(static_cast<int>(n.size()), n.empty() ? 1 : n[0], at.data(),
                                    part, &made);
    return made;
  }
  MPI_Datatype structure(MPI_Datatype part, MPI_Datatype base) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const auto n = lengths();
    std::vector<MPI_Datatype> types;
    std::vector<MPI_Aint> at;
    MPI_Aint end = 0;
    for (const int length : n) {
      // Open MPI puts later elements elsewhere if a member has bounds but no bytes.
      types.push_back(pick(0, 1) == 0 && Shape(part).size > 0 ? part : base);
      const Shape shape(types.back());
      const auto first = std::max<MPI_Aint>(0, end - static_cast<MPI_Aint>(shape.true_lower_bound));
      at.push_back(in_file() ? first + pick(0, 20) : pick(-100, 100));
      if (length > 0 && shape.size > 0) {
        end = at.back() + static_cast<MPI_Aint>((length - 1) * shape.extent + shape.true_end());
      }
    }
    PMPI_Type_create_struct(static_cast<int>(n.size()), n.data(), at.data(), types.data(), &made);
    return made;
  }
  MPI_Datatype resized(MPI_Datatype part, MPI_Datatype) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    if (in_file()) {
      PMPI_Type_create_resized(part, 0, static_cast<MPI_Aint>(Shape(part).true_end()) + pick(0, 40),
                               &made);
    } else {
      PMPI_Type_create_resized(part, pick(-50, 50), pick(-50, 100), &made);
    }
    return made;
  }
  MPI_Datatype subarray(MPI_Datatype part, MPI_Datatype) {
    std::vector<int> sizes, subsizes, starts;
    for (int i = pick(1, 3); i > 0; --i) {
      sizes.push_back(pick(1, 4));
      subsizes.push_back(pick(1, sizes.back()));
      starts.push_back(pick(0, sizes.back() - subsizes.back()));
    }
    MPI_Datatype made = MPI_DATATYPE_NULL;
    PMPI_Type_create_subarray(static_cast<int>(sizes.size()), sizes.data(), subsizes.data(),
                              starts.data(), order(), part, &made);
    return made;
  }
  MPI_Datatype darray(MPI_Datatype part, MPI_Datatype) {
    std::vector<int> sizes, kinds, arguments, grid;
    int processes = 1;
    for (int i = pick(1, 3); i > 0; --i) {
      sizes.push_back(pick(1, 7));
      kinds.push_back(std::vector{MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK,
                                  MPI_DISTRIBUTE_CYCLIC}[static_cast<std::size_t>(pick(0, 2))]);
      grid.push_back(kinds.back() == MPI_DISTRIBUTE_NONE ? 1 : pick(1, 3));
      const int block = (sizes.back() + grid.back() - 1) / grid.back();
      arguments.push_back(MPI_DISTRIBUTE_DFLT_DARG);
      if (kinds.back() == MPI_DISTRIBUTE_BLOCK && pick(0, 1) == 0) {
        arguments.back() = pick(block, block + 1);
      }
      if (kinds.back() == MPI_DISTRIBUTE_CYCLIC && pick(0, 1) == 0) arguments.back() = pick(1, 3);
      processes *= grid.back();
    }
    MPI_Datatype made = MPI_DATATYPE_NULL;
    PMPI_Type_create_darray(processes, pick(0, processes - 1), static_cast<int>(sizes.size()),
                            sizes.data(), kinds.data(), arguments.data(), grid.data(), order(),
                            part, &made);
    return made;
  }
  int order() { return pick(0, 1) == 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN; }

  std::mt19937_64& random_;
  Use use_;
  std::map<std::string, int> made_;
  int refused_ = 0;
  std::string history_;
};

}  // namespace scr::test
