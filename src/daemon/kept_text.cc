#include "daemon/kept_text.h"

#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "base/sha256.h"
#include "page/gzip.h"

namespace carma::daemon {

KeptText::KeptText(std::function<base::Json()> make, std::chrono::nanoseconds keep)
    : make_(std::move(make)), keep_(keep) {}

void KeptText::MakeAnew() {
  base::Json json = make_();
  text_ = base::DumpJson(json);
  gzip_ = page::Gzip(text_, page::Effort::kEvery);
  json.erase("now_ms");
  base::Sha256 hash;
  hash.Add(base::DumpJson(json));
  etag_ = fmt::format("\"{}\"", hash.FinishHex().substr(0, 16));
}

api::Response KeptText::Answer(const api::Request& request, Moment now) {
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
