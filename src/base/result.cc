#include "base/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/words.h"

namespace carma::base {
namespace {

constexpr std::pair<ErrorCode, std::string_view> kErrorWords[] = {
    {ErrorCode::kInvalid, "invalid"},   {ErrorCode::kNotFound, "not_found"},
    {ErrorCode::kConflict, "conflict"}, {ErrorCode::kUnavailable, "unavailable"},
    {ErrorCode::kDenied, "denied"},     {ErrorCode::kIo, "io"},
    {ErrorCode::kCorrupt, "corrupt"},
};

}  // namespace

template <>
inline constexpr Words<ErrorCode> kWordsOf<ErrorCode> = kErrorWords;

std::string_view ErrorCodeName(ErrorCode code) {
  return WordOf(code);
}

ErrorCode ParseErrorCode(std::string_view name) {
  return FromWord<ErrorCode>(name).value_or(ErrorCode::kIo);
}

std::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

std::unexpected<Error> FailErrno(int err, std::string_view what) {
  ErrorCode code = ErrorCode::kIo;
  if (err == ENOENT) code = ErrorCode::kNotFound;
  if (err == EACCES || err == EPERM) code = ErrorCode::kDenied;
  // The machine has run out of descriptors, memory or processes. This may be temporary.
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
