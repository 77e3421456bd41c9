// An answer that many clients request every second: made once for all of them.
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

  // make: returns a JSON object; changes of "now_ms" alone do not count. keep: minimum time before
  // the answer is made again.
  CachedResponse(std::function<nlohmann::json()> make, std::chrono::nanoseconds keep);

  // Answers 304 to a client that has this text already. now: never goes back.
  api::Response Answer(const api::Request& request, Moment now = std::chrono::steady_clock::now());

 private:
  void MakeAnew();

  std::function<nlohmann::json()> make_;
  std::chrono::nanoseconds keep_;
  Moment made_{};
  std::string text_, gzip_, etag_;
};

}  // namespace carma::daemon
