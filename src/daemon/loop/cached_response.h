// Caches a response that many clients request every second, so that it is built only once for all
// of them.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/http.h"

namespace carma::daemon {

class CachedResponse {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // make: returns a JSON object. A response that differs only in "now_ms" counts as unchanged.
  // keep: how long a response is used before it is rebuilt.
  CachedResponse(std::function<nlohmann::json()> make, std::chrono::nanoseconds keep);

  // Responds with 304 if the client already has the current response. now: must not decrease from
  // call to call.
  api::Response Answer(const api::Request& request, Moment now = std::chrono::steady_clock::now());

 private:
  void MakeAnew();

  std::function<nlohmann::json()> make_;
  std::chrono::nanoseconds keep_;
  Moment made_{};
  std::string text_, gzip_, etag_;
};

}  // namespace carma::daemon
