#include "base/base64.h"

#include <gtest/gtest.h>

namespace carma::base {
namespace {

TEST(Base64, MatchesTheTestVectorsAndRefusesInvalidText) {
  // Test vectors from RFC 4648, section 10.
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes);
  }
  for (const char* bad : {"Z", "Zg=", "Zg==Zg==", "Z===", "====", "Zm 9"})
    EXPECT_EQ(DecodeBase64(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace carma::base
