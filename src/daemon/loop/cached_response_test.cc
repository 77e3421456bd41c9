#include "daemon/loop/cached_response.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace carma::daemon {
namespace {

using std::chrono::milliseconds;

std::string HeaderOf(const api::Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

class CachedResponseTest : public ::testing::Test {
 protected:
  api::Response At(int ms, const std::string& known = "", bool gzip = false) {
    api::Request request;
    request.if_none_match = known;
    request.accepts_gzip = gzip;
    return text_.Answer(request, start_ + milliseconds(ms));
  }
  base::Json said_{{"tasks", 1}};
  int made_ = 0;
  CachedResponse text_{[this] {
                         ++made_;
                         base::Json json = said_;
                         json["now_ms"] = made_;
                         return json;
                       },
                       milliseconds(500)};
  const CachedResponse::Moment start_ = std::chrono::steady_clock::now();
};

TEST_F(CachedResponseTest, IsMadeOnceForAllClientsWithinTheTime) {
  const api::Response first = At(0);
  EXPECT_EQ(base::ParseJson(first.body).value(), (base::Json{{"tasks", 1}, {"now_ms", 1}}));
  said_["tasks"] = 2;
  EXPECT_EQ(At(499).body, first.body);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(base::ParseJson(At(500).body).value(), (base::Json{{"tasks", 2}, {"now_ms", 2}}));
}

TEST_F(CachedResponseTest, Answers304UntilMoreThanTheTimeHasChanged) {
  const std::string etag = HeaderOf(At(0), "ETag");
  EXPECT_EQ(At(1000, etag).status, 304);
  EXPECT_TRUE(At(1000, etag).body.empty());
  EXPECT_EQ(At(1000).status, 200);
  said_["tasks"] = 2;
  const api::Response changed = At(2000, etag);
  EXPECT_EQ(changed.status, 200);
  EXPECT_NE(HeaderOf(changed, "ETag"), etag);
}

TEST_F(CachedResponseTest, IsCompressedIfTheClientAcceptsIt) {
  const api::Response packed = At(0, "", true);
  EXPECT_EQ(HeaderOf(packed, "Content-Encoding"), "gzip");
  EXPECT_TRUE(packed.body.starts_with("\x1f\x8b"));
  EXPECT_EQ(HeaderOf(At(0), "Content-Encoding"), "");
}

}  // namespace
}  // namespace carma::daemon
