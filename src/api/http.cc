#include "api/http.h"

#include "base/json.h"

namespace carma::api {
namespace {

int StatusOf(ErrorCode code) {
  constexpr int kStatus[] = {400, 404, 409, 503, 403, 500, 500};  // by ErrorCode
  return kStatus[static_cast<std::size_t>(code)];
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
    Answer(ErrorResponse({ErrorCode::kIo, "the daemon dropped the request without an answer"}));
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
