#include "daemon/loop/cached_response.h"

#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "base/sha256.h"
#include "page/gzip.h"

namespace carma::daemon {

CachedResponse::CachedResponse(std::function<base::Json()> make, std::chrono::nanoseconds keep)
    : make_(std::move(make)), keep_(keep) {}

void CachedResponse::MakeAnew() {
  base::Json json = make_();
  base::Json now = nullptr;
  if (const auto time = json.find("now_ms"); time != json.end()) {
    now = std::move(*time);
    json.erase(time);
  }
  text_ = base::DumpJson(json);
  base::Sha256 hash;
  hash.Add(text_);
  etag_ = fmt::format("\"{}\"", hash.FinishHex().substr(0, 16));
  // Inserts "now_ms" into the text, because serialising the response twice would double the cost.
  if (!now.is_null())
    text_ =
        fmt::format("{{\"now_ms\":{}{}{}", now.dump(), json.empty() ? "" : ",", text_.substr(1));
  gzip_ = page::Gzip(text_, page::Effort::kEvery);
}

api::Response CachedResponse::Answer(const api::Request& request, Moment now) {
  if (text_.empty() || now - made_ >= keep_) {
    MakeAnew();
    made_ = now;
  }
  api::Response response;
  response.headers = {{"ETag", etag_}, {"Cache-Control", "no-cache"}, {"Vary", "Accept-Encoding"}};
  if (request.if_none_match == etag_) {
    response.status = 304;
    return response;
  }
  response.body = request.accepts_gzip ? gzip_ : text_;
  if (request.accepts_gzip) response.headers.emplace_back("Content-Encoding", "gzip");
  return response;
}

}  // namespace carma::daemon
