// Caches an answer that many clients request every second, so that it is built only once for all of
// them.
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

  // make: returns a JSON object. An answer that differs only in "now_ms" counts as unchanged. keep:
  // how long an answer is used before it is built again.
  CachedResponse(std::function<nlohmann::json()> make, std::chrono::nanoseconds keep);

  // Answers 304 if the client already has the current answer. now: must not decrease from call to
  // call.
  api::Response Answer(const api::Request& request, Moment now = std::chrono::steady_clock::now());

 private:
  void MakeAnew();

  std::function<nlohmann::json()> make_;
  std::chrono::nanoseconds keep_;
  Moment made_{};
  std::string text_, gzip_, etag_;
};

}  // namespace carma::daemon
