#include "core/mpi/datatype_contents.hpp"

#include <fmt/format.h>

namespace scr::mpi {
namespace {

#if MPI_VERSION >= 4
using Number = MPI_Count;
#else
using Number = int;
#endif

struct Envelope {
  Number integers = 0;
  Number addresses = 0;
  Number large_counts = 0;
  Number types = 0;
  int combiner = MPI_COMBINER_NAMED;
};

Result<Envelope> envelope_of(MPI_Datatype type) {
  Envelope e;
#if MPI_VERSION >= 4
  const int code = PMPI_Type_get_envelope_c(type, &e.integers, &e.addresses, &e.large_counts,
                                            &e.types, &e.combiner);
#else
  const int code = PMPI_Type_get_envelope(type, &e.integers, &e.addresses, &e.types, &e.combiner);
#endif
  if (code != MPI_SUCCESS) return mpi_status(code, "take a datatype apart");
  return e;
}

}  // namespace

Status mpi_status(int code, const char* tried) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(code, text, &length);
  return invalid_argument(fmt::format("cannot {}: {}", tried, text));
}

Result<int> combiner_of(MPI_Datatype type) {
  SCR_ASSIGN_OR_RETURN(const Envelope envelope, envelope_of(type));
  return envelope.combiner;
}

bool is_predefined(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

Result<DatatypeContents> DatatypeContents::of(MPI_Datatype type) {
  SCR_ASSIGN_OR_RETURN(const Envelope e, envelope_of(type));
  DatatypeContents contents;
  contents.integers_.resize(static_cast<std::size_t>(e.integers));
  contents.addresses_.resize(static_cast<std::size_t>(e.addresses));
  contents.large_counts_.resize(static_cast<std::size_t>(e.large_counts));
  std::vector<MPI_Datatype> types(static_cast<std::size_t>(e.types));
#if MPI_VERSION >= 4
  const int code = PMPI_Type_get_contents_c(type, e.integers, e.addresses, e.large_counts, e.types,
                                            contents.integers_.data(), contents.addresses_.data(),
                                            contents.large_counts_.data(), types.data());
#else
  const int code =
      PMPI_Type_get_contents(type, e.integers, e.addresses, e.types, contents.integers_.data(),
                             contents.addresses_.data(), types.data());
#endif
  if (code != MPI_SUCCESS) return mpi_status(code, "take a datatype apart");
  contents.types_ = std::move(types);
  return contents;
}

DatatypeContents::~DatatypeContents() {
  for (MPI_Datatype& type : types_) {
    const auto combiner = combiner_of(type);
    if (combiner.ok() && !is_predefined(*combiner)) PMPI_Type_free(&type);
  }
}

std::int64_t DatatypeContents::next_count() {
  return is_large() ? large_counts_.at(next_large_++) : next_int();
}

std::int64_t DatatypeContents::next_address() {
  if (is_large()) return large_counts_.at(next_large_++);
  return addresses_.empty() ? next_int() : addresses_.at(next_address_++);
}

std::vector<std::int64_t> DatatypeContents::next_ints(std::int64_t n) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(next_int());
  return values;
}

std::vector<std::int64_t> DatatypeContents::next_counts(std::int64_t n) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(next_count());
  return values;
}

}  // namespace scr::mpi
