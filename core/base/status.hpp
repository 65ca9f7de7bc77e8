// Status and Result<T>: how every fallible call of h5scr reports failure.
//
// A Status is either ok or carries a code and one line of text that says what was tried, on which
// path, why it failed, and what the user can do. Nothing here throws; the C edges (SCR_* codes, the
// HDF5 error stack, MPI error codes) translate a Status exactly once. Safe to use from any thread.
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace scr {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,     // the caller passed something that can never work
  kNotFound,            // a file, key or dataset is not there
  kCorrupt,             // data failed its checksum or does not follow its format
  kIoError,             // the operating system reported an error (errno_value() tells which)
  kNoSpace,             // ENOSPC or EDQUOT: full device or exceeded quota
  kPermissionDenied,    // not ours, or not safe to touch
  kFailedPrecondition,  // right call, wrong moment
  kUnrecoverable,       // more was lost than the redundancy scheme can bear
  kUnavailable,         // try again later: busy, locked, timed out
  kInternal,            // a bug of ours
};

// Name of a code for logs and tests, e.g. "CORRUPT".
std::string_view status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message, int errno_value = 0);

  bool ok() const { return detail_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : detail_->code; }
  // The errno behind the failure, or 0.
  int errno_value() const { return ok() ? 0 : detail_->errno_value; }
  // One line without a trailing newline; empty when ok.
  std::string_view message() const { return ok() ? std::string_view() : detail_->message; }
  // "CORRUPT: message", or "OK".
  std::string to_string() const;

  // The same failure with words put before its message ("while reading x: ..."). Ok stays ok.
  Status with_context(std::string_view context) const;

  // True for failures that may go away by themselves (EIO, ENOSPC, time-outs), which must not
  // mark data as bad.
  bool is_transient() const;
  // True for failures to reach data that tell nothing of the data itself: transient ones, and
  // missing permissions. What could not be read so must not be given up as lost.
  bool may_hide_sound_data() const;

 private:
  struct Detail {
    StatusCode code;
    int errno_value;
    std::string message;
  };
  std::shared_ptr<const Detail> detail_;
};

// Status from errno after a failed system call: "cannot open '/x/y': Permission denied".
// `tried` is what was tried, in words ("open", "create directory").
Status errno_status(int errno_value, std::string_view tried, std::string_view path);

Status invalid_argument(std::string message);
Status not_found(std::string message);
Status corrupt(std::string message);
Status failed_precondition(std::string message);
Status internal_error(std::string message);

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok() && "an ok Result needs a value");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T& value() & {
    assert(ok());
    return *value_;
  }
  // By value, so that `for (... : f().value())` and `const auto& x = *f()` do not dangle.
  T value() && {
    assert(ok());
    return *std::move(value_);
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace scr

// Returns from the calling function if the expression's Status is not ok.
#define SCR_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                   \
    if (::scr::Status scr_status_ = (expression); !scr_status_.ok()) return scr_status_; \
  } while (false)

#define SCR_CONCAT_INNER(a, b) a##b
#define SCR_CONCAT(a, b) SCR_CONCAT_INNER(a, b)

// SCR_ASSIGN_OR_RETURN(auto x, f()): x takes the value, or the calling function returns the Status.
#define SCR_ASSIGN_OR_RETURN(declaration, expression) \
  SCR_ASSIGN_OR_RETURN_IMPL(SCR_CONCAT(scr_result_, __LINE__), declaration, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are declarations and names
#define SCR_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return result.status();                        \
  declaration = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
