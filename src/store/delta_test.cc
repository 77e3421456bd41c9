#include "store/delta.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace carma::store {
namespace {

std::string Environment(int variables) {
  std::string text = "\"environment\":{";
  for (int i = 0; i < variables; ++i) {
    text +=
        "\"VARIABLE_" + std::to_string(i) + "\":\"value number " + std::to_string(i * 7) + "\",";
  }
  return text + "\"Z\":\"\"}";
}

std::string Spec(const std::string& array_index, const std::string& command) {
  return "{\"array_index\":" + array_index + ",\"command\":[" + command + "]," + Environment(80) +
         ",\"name\":\"train\",\"stdout_path\":\"/home/ada/%j.out\"}";
}

TEST(Delta, RestoresTheText) {
  const std::string base = Spec("0", "\"python\",\"train.py\"");
  struct Case {
    const char* name;
    std::string text;
    std::size_t at_most;
  };
  const Case cases[] = {
      {"the same text", base, 20},
      {"another array index", Spec("12345", "\"python\",\"train.py\""), 60},
      {"another command", Spec("0", "\"bash\",\"-c\",\"echo hello, world\""), 120},
      {"one more variable", Spec("0", "\"python\",\"train.py\"").replace(200, 0, "\"NEW\":\"x\","),
       90},
      {"nothing in common", std::string(3000, 'q'), 3010},
      {"an empty text", "", 0},
      {"a shorter text", base.substr(0, 100), 20},
      {"a longer text", base + base, 60},
      {"zero bytes", std::string(100, '\0'), 110},
      {"commas only", std::string(100, ','), 110},
  };
  const Template prepared(base);
  for (const Case& c : cases) {
    const std::string difference = prepared.Difference(c.text);
    EXPECT_EQ(Apply(base, difference), c.text) << c.name;
    EXPECT_LE(difference.size(), c.at_most) << c.name << ": " << difference;
  }
}

TEST(Delta, RestoresRandomTexts) {
  base::Rng rng(7);
  const auto random_text = [&] {
    std::string text;
    for (std::uint64_t n = rng.Below(40); n > 0; --n) {
      text += rng.Below(4) == 0 ? ","
                                : std::string(rng.Below(30), static_cast<char>('a' + rng.Below(3)));
    }
    return text;
  };
  for (int i = 0; i < 5'000; ++i) {
    const std::string base = random_text();
    std::string text = rng.Below(2) == 0 ? base : random_text();
    if (!text.empty()) text[rng.Below(text.size())] = 'z';
    ASSERT_EQ(Apply(base, Template(base).Difference(text)), text) << base << "\n" << text;
  }
}

TEST(Delta, RefusesInvalidDifferences) {
  for (const char* bad :
       {"x", "c", "c1", "c1,", "c0,5", "c0,11;", "c11,0;", "c-1,2;", "i", "i5;abc",
        "i99999999999999999999;", "c5,18446744073709551615;", "c0,1;?"}) {
    EXPECT_EQ(Apply("0123456789", bad), std::nullopt) << bad;
  }
  EXPECT_EQ(Apply("0123456789", "c10,0;i3;abcc2,3;"), "abc234");
}

}  // namespace
}  // namespace carma::store
