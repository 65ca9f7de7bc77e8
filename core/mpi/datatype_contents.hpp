// How a datatype was made: MPI_Type_get_envelope and MPI_Type_get_contents, read one argument after
// the other in the order of the constructor's arguments.
//
// MPI-4 has a second form of most constructors, with MPI_Count for int and for MPI_Aint, and
// reports their arguments in a third array: the reader below finds each argument where it is.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.hpp"
#include "core/mpi/datatype.hpp"

namespace scr::mpi {

// The Status of a failed call of MPI: "cannot <tried>: <MPI's own words>".
Status mpi_status(int code, const char* tried);

// MPI_COMBINER_NAMED, ... of a type.
Result<int> combiner_of(MPI_Datatype type);
// True for the named types and those of MPI_Type_create_f90_*: they have no parts and are not
// freed.
bool is_predefined(int combiner);

class DatatypeContents {
 public:
  // Not for predefined types.
  static Result<DatatypeContents> of(MPI_Datatype type);
  // MPI gives references to derived types, which are to be freed, and predefined types, which are
  // not.
  ~DatatypeContents();
  DatatypeContents(DatatypeContents&&) = default;
  DatatypeContents& operator=(DatatypeContents&&) = delete;

  std::int64_t next_int() { return integers_.at(next_integer_++); }
  // An argument that is int, or MPI_Count in the large form.
  std::int64_t next_count();
  // An argument that is MPI_Aint, or MPI_Count in the large form, or int in the forms of MPI-1 for
  // Fortran.
  std::int64_t next_address();
  std::vector<std::int64_t> next_ints(std::int64_t n);
  std::vector<std::int64_t> next_counts(std::int64_t n);

  const std::vector<MPI_Datatype>& types() const { return types_; }

 private:
  DatatypeContents() = default;
  bool is_large() const { return !large_counts_.empty(); }

  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Count> large_counts_;
  std::vector<MPI_Datatype> types_;
  std::size_t next_integer_ = 0;
  std::size_t next_address_ = 0;
  std::size_t next_large_ = 0;
};

}  // namespace scr::mpi
