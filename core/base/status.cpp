#include "core/base/status.hpp"

#include <cerrno>
#include <cstring>

namespace scr {

std::string_view status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kCorrupt:
      return "CORRUPT";
    case StatusCode::kIoError:
      return "IO_ERROR";
    case StatusCode::kNoSpace:
      return "NO_SPACE";
    case StatusCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kUnrecoverable:
      return "UNRECOVERABLE";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

Status::Status(StatusCode code, std::string message, int errno_value) {
  if (code != StatusCode::kOk) {
    detail_ = std::make_shared<const Detail>(Detail{code, errno_value, std::move(message)});
  }
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(status_code_name(code())) + ": " + detail_->message;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return {code(), std::string(context) + ": " + detail_->message, errno_value()};
}

bool Status::is_transient() const {
  switch (code()) {
    case StatusCode::kIoError:
    case StatusCode::kNoSpace:
    case StatusCode::kUnavailable:
      return true;
    default:
      return false;
  }
}

bool Status::may_hide_sound_data() const {
  return is_transient() || code() == StatusCode::kPermissionDenied;
}

Status errno_status(int errno_value, std::string_view tried, std::string_view path) {
  StatusCode code = StatusCode::kIoError;
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      code = StatusCode::kNotFound;
      break;
    case ENOSPC:
    case EDQUOT:
      code = StatusCode::kNoSpace;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case EXDEV:
      code = StatusCode::kPermissionDenied;
      break;
    case EAGAIN:
    case EBUSY:
    case ETIMEDOUT:
      code = StatusCode::kUnavailable;
      break;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
    case EEXIST:
    case ENOTEMPTY:
      code = StatusCode::kInvalidArgument;
      break;
    default:
      break;
  }
  std::string message = "cannot " + std::string(tried) + " '" + std::string(path) +
                        "': " + std::strerror(errno_value);
  return {code, std::move(message), errno_value};
}

Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
Status corrupt(std::string message) { return {StatusCode::kCorrupt, std::move(message)}; }
Status failed_precondition(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}
Status internal_error(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

}  // namespace scr
