#include "api/http.h"

#include "base/json.h"

namespace carma::api {
namespace {

int StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDenied:
      return 403;
    case ErrorCode::kIo:
    case ErrorCode::kCorrupt:
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

struct Responder::Once {
  explicit Once(Send answer) : send(std::move(answer)) {}
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;
  ~Once() {
    Answer(ErrorResponse({ErrorCode::kIo, "the daemon dropped the request without responding"}));
  }
  void Answer(Response response) {
    if (const Send once = std::exchange(send, nullptr)) once(std::move(response));
  }
  Send send;  // empty once answered
};

Responder::Responder(Send send) : once_(std::make_shared<Once>(std::move(send))) {}

void Responder::operator()(Response response) const {
  once_->Answer(std::move(response));
}

void Responder::operator()(Result<Response> answer) const {
  once_->Answer(answer ? *std::move(answer) : ErrorResponse(answer.error()));
}

}  // namespace carma::api
