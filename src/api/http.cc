#include "api/http.h"

#include "base/json.h"

namespace carma::api {
namespace {

int StatusOf(base::ErrorCode code) {
  switch (code) {
    case base::ErrorCode::kInvalid:
      return 400;
    case base::ErrorCode::kNotFound:
      return 404;
    case base::ErrorCode::kConflict:
      return 409;
    case base::ErrorCode::kUnavailable:
      return 503;
    case base::ErrorCode::kDenied:
      return 403;
    case base::ErrorCode::kIo:
    case base::ErrorCode::kCorrupt:
      return 500;
  }
  return 500;
}

}  // namespace

std::optional<std::string> Request::Query(std::string_view key) const {
  for (const auto& [name, value] : query) {
    if (name == key) return value;
  }
  return std::nullopt;
}

Response ErrorResponse(const base::Error& error) {
  const base::Json body = {
      {"error", {{"code", base::ErrorCodeName(error.code)}, {"message", error.message}}}};
  return {.status = StatusOf(error.code), .body = base::DumpJson(body)};
}

Responder::~Responder() {
  if (send_) {
    send_(
        ErrorResponse({base::ErrorCode::kIo, "the daemon dropped the request without an answer"}));
  }
}

void Responder::operator()(Response response) {
  if (!send_) return;
  const Send send = std::exchange(send_, nullptr);
  send(std::move(response));
}

}  // namespace carma::api
