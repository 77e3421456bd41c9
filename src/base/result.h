// Represents expected failures as values. Every CARMA function that can fail returns Result<T>.
#pragma once

#include <fmt/core.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace carma::base {

// Callers react differently to each of these codes.
enum class ErrorCode {
  kInvalid,      // the input is wrong: exit 2, HTTP 400
  kNotFound,     // does not exist: exit 1, HTTP 404
  kConflict,     // wrong state, or already in use: exit 1, HTTP 409
  kUnavailable,  // not possible now (daemon down, driver hangs): exit 1, HTTP 503
  kDenied,       // not permitted: exit 1, HTTP 403
  kIo,           // a system call failed: exit 1, HTTP 500
  kCorrupt,      // stored bytes are damaged: refuse and change nothing
};

struct Error {
  ErrorCode code = ErrorCode::kIo;
  std::string message;  // one line: what happened, where, what was expected
};

template <class T>
using Result = std::expected<T, Error>;

struct Unit {
  friend bool operator==(Unit, Unit) = default;
};

std::string_view ErrorCodeName(ErrorCode code);  // as in the API: "invalid", "not_found" …
// Returns kIo if the name is unknown.
ErrorCode ParseErrorCode(std::string_view name);

std::unexpected<Error> Fail(ErrorCode code, std::string message);
// Formats the message with fmt and returns it as an error.
template <class First, class... Rest>
std::unexpected<Error> Fail(ErrorCode code, fmt::format_string<First, Rest...> text, First&& first,
                            Rest&&... rest) {
  return Fail(code, fmt::vformat(text, fmt::make_format_args(first, rest...)));
}

// Fail() with a fixed code, for example Invalid("{}: expected a number", word).
template <ErrorCode kCode>
struct FailWith {
  std::unexpected<Error> operator()(std::string message) const {
    return Fail(kCode, std::move(message));
  }
  template <class First, class... Rest>
  std::unexpected<Error> operator()(fmt::format_string<First, Rest...> text, First&& first,
                                    Rest&&... rest) const {
    return Fail(kCode, fmt::vformat(text, fmt::make_format_args(first, rest...)));
  }
};
inline constexpr FailWith<ErrorCode::kInvalid> Invalid;
inline constexpr FailWith<ErrorCode::kNotFound> NotFound;
inline constexpr FailWith<ErrorCode::kConflict> Conflict;
inline constexpr FailWith<ErrorCode::kUnavailable> Unavailable;
inline constexpr FailWith<ErrorCode::kDenied> Denied;

// The error from a failed system call: "what: strerror(err)". ENOENT becomes kNotFound, EACCES and
// EPERM become kDenied, a lack of resources becomes kUnavailable, and all others become kIo.
std::unexpected<Error> FailErrno(int err, std::string_view what);
// Prefixes the message with what the caller was doing when the error occurred: "doing: message".
std::unexpected<Error> Wrap(const Error& error, std::string_view doing);
// Does the same to the error of a result, if it has one.
template <class T>
Result<T> Wrap(Result<T> result, std::string_view doing) {
  if (!result) return Wrap(result.error(), doing);
  return result;
}

// Aborts with the source location and the text. For broken invariants in CARMA itself.
[[noreturn]] void CheckFailed(const char* file, int line, std::string_view what);

}  // namespace carma::base

namespace carma {

// CARMA uses these names unqualified, because every function that can fail needs them.
using base::Conflict;
using base::Denied;
using base::ErrorCode;
using base::Fail;
using base::FailErrno;
using base::Invalid;
using base::NotFound;
using base::Result;
using base::Unavailable;
using base::Unit;

}  // namespace carma

#define CARMA_CHECK(condition, what) \
  ((condition) ? static_cast<void>(0) : ::carma::base::CheckFailed(__FILE__, __LINE__, what))
