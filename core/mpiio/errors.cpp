#include "core/mpiio/errors.hpp"

#include <cerrno>

#include "core/base/log.hpp"

namespace scr::mpiio {
namespace {

int class_of_errno(int number) {
  switch (number) {
    case ENOENT:
      return MPI_ERR_NO_SUCH_FILE;
    case EEXIST:
      return MPI_ERR_FILE_EXISTS;
    case EACCES:
    case EPERM:
      return MPI_ERR_ACCESS;
    case EROFS:
      return MPI_ERR_READ_ONLY;
    case ENOSPC:
      return MPI_ERR_NO_SPACE;
    case EDQUOT:
      return MPI_ERR_QUOTA;
    case ENAMETOOLONG:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
      return MPI_ERR_BAD_FILE;
    case EBUSY:
    case ETXTBSY:
      return MPI_ERR_FILE_IN_USE;
    default:
      return MPI_SUCCESS;
  }
}

}  // namespace

int error_class(const Status& status) {
  if (status.ok()) return MPI_SUCCESS;
  if (const int found = class_of_errno(status.errno_value()); found != MPI_SUCCESS) return found;
  switch (status.code()) {
    case StatusCode::kNotFound:
      return MPI_ERR_NO_SUCH_FILE;
    case StatusCode::kInvalidArgument:
      return MPI_ERR_ARG;
    case StatusCode::kNoSpace:
      return MPI_ERR_NO_SPACE;
    case StatusCode::kPermissionDenied:
      return MPI_ERR_ACCESS;
    default:
      return MPI_ERR_IO;
  }
}

int report(const Status& status) {
  if (!status.ok()) log::error("{}", status.message());
  return error_class(status);
}

int raise(MPI_File file, int code) {
  if (code != MPI_SUCCESS) PMPI_File_call_errhandler(file, code);
  return code;
}

}  // namespace scr::mpiio
