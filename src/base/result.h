// Expected failures as values: every fallible call of CARMA returns Result<T>.
#pragma once

#include <fmt/core.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace carma::base {

// A few codes, each with a different reaction of the caller.
enum class ErrorCode {
  kInvalid,      // the input is wrong: exit 2, HTTP 400
  kNotFound,     // no such thing: exit 1, HTTP 404
  kConflict,     // wrong state, or held by another: exit 1, HTTP 409
  kUnavailable,  // not now (daemon down, driver hangs): exit 1, HTTP 503
  kDenied,       // not yours: exit 1, HTTP 403
  kIo,           // the machine failed us: exit 1, HTTP 500
  kCorrupt,      // stored bytes are not what was written: refuse and touch nothing
};

struct Error {
  ErrorCode code = ErrorCode::kIo;
  std::string message;  // one line: what, where, what was expected
};

template <class T>
using Result = std::expected<T, Error>;

struct Unit {
  friend bool operator==(Unit, Unit) = default;
};

std::string_view ErrorCodeName(ErrorCode code);  // "invalid", "not_found" … as in the API
// kIo for a name not in the table.
ErrorCode ParseErrorCode(std::string_view name);

std::unexpected<Error> Fail(ErrorCode code, std::string message);
// The message is written by a format string of fmt.
template <class First, class... Rest>
std::unexpected<Error> Fail(ErrorCode code, fmt::format_string<First, Rest...> text, First&& first,
                            Rest&&... rest) {
  return Fail(code, fmt::vformat(text, fmt::make_format_args(first, rest...)));
}

// Fail() with one of the usual codes: Invalid("{}: expected a number", word).
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

// Error of a system call: "what: strerror(err)"; ENOENT is kNotFound, EACCES and EPERM kDenied, the
// rest kIo.
std::unexpected<Error> FailErrno(int err, std::string_view what);
// The same error, prefixed with what the caller was doing: "doing: message".
std::unexpected<Error> Wrap(const Error& error, std::string_view doing);

// Aborts with the place and the text: an invariant of our own is broken.
[[noreturn]] void CheckFailed(const char* file, int line, std::string_view what);

}  // namespace carma::base

namespace carma {

// Every call that can fail needs these names, so all of CARMA can use them unqualified.
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
