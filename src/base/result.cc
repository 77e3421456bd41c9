#include "base/result.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace carma::base {
namespace {

constexpr std::string_view kNames[] = {"invalid", "not_found", "conflict", "unavailable",
                                       "denied",  "io",        "corrupt"};  // by ErrorCode

}  // namespace

std::string_view ErrorCodeName(ErrorCode code) {
  return kNames[static_cast<std::size_t>(code)];
}

ErrorCode ParseErrorCode(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  return found == std::end(kNames) ? ErrorCode::kIo : static_cast<ErrorCode>(found - kNames);
}

std::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

std::unexpected<Error> FailErrno(int err, std::string_view what) {
  ErrorCode code = ErrorCode::kIo;
  if (err == ENOENT) code = ErrorCode::kNotFound;
  if (err == EACCES || err == EPERM) code = ErrorCode::kDenied;
  // The machine has run out of descriptors, memory or processes, but this may be temporary.
  if (err == EMFILE || err == ENFILE || err == ENOMEM || err == EAGAIN)
    code = ErrorCode::kUnavailable;
  return Fail(code, std::string(what) + ": " + std::strerror(err));
}

std::unexpected<Error> Wrap(const Error& error, std::string_view doing) {
  return Fail(error.code, std::string(doing) + ": " + error.message);
}

void CheckFailed(const char* file, int line, std::string_view what) {
  std::fprintf(stderr, "%s:%d: check failed: %.*s\n", file, line, static_cast<int>(what.size()),
               what.data());
  std::abort();
}

}  // namespace carma::base
