#include "core/mpiio/errors.hpp"

#include <cerrno>
#include <string>

#include "core/base/filesystem.hpp"
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

// Open MPI does not take MPI_FILE_NULL for a file with a handler. But every new file gets that
// handler.
void raise_without_file(int code) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  PMPI_File_get_errhandler(MPI_FILE_NULL, &handler);
  const bool returns = handler == MPI_ERRORS_RETURN;
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  if (returns) return;
  const std::string name = temporary_beside("/dev/shm/h5scr-mpiio").path;
  MPI_File file = MPI_FILE_NULL;
  const int opened = PMPI_File_open(MPI_COMM_SELF, name.c_str(),
                                    MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                                    MPI_INFO_NULL, &file);
  if (opened != MPI_SUCCESS) return;  // has called the handler
  PMPI_File_call_errhandler(file, code);
  PMPI_File_close(&file);
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
  if (code == MPI_SUCCESS) return code;
  if (file == MPI_FILE_NULL) {
    raise_without_file(code);
  } else {
    PMPI_File_call_errhandler(file, code);
  }
  return code;
}

}  // namespace scr::mpiio
