#include "estimate/recipe/settings.h"

#include <gtest/gtest.h>

namespace carma::estimate {
namespace {

std::string Told(const Result<std::vector<Setting>>& settings) {
  if (!settings) return settings.error().message;
  std::string told;
  for (const Setting& each : *settings)
    told += each.from + " " + each.key + "=" + each.value + "\n";
  return told;
}

TEST(Yaml, ReadsConfigurations) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {"a: 1\nb: two words # comment\nc: 'it''s'\nd: \"x # \\\"y\\\"\"\n",
       "f:1 a=1\nf:2 b=two words\nf:3 c=it's\nf:4 d=x # \"y\"\n"},
      {"---\nmodel:\n  name: x\n  lora:\n    r: 8\nseq: 4\n",
       "f:3 model.name=x\nf:5 model.lora.r=8\nf:6 seq=4\n"},
      {"t:\n- q_proj\n- v_proj\nu:\n  - a\nv: [x, \"y\" , z]\n",
       "f:2 t=q_proj,v_proj\nf:5 u=a\nf:6 v=x,y,z\n"},
      {"d:\n  - path: p\n    type: alpaca\n  - path: q\nn: 1\n",
       "f:2 d.0.path=p\nf:3 d.0.type=alpaca\nf:4 d.1.path=q\nf:5 n=1\n"},
      {"m: {a: 1, b: {c: 2}, l: [3,\n  4]}\nn: 5\n",
       "f:1 m.a=1\nf:1 m.b.c=2\nf:1 m.l=3,4\nf:3 n=5\n"},
      {"text: |\n  a: 1\n  b: 2\nn: 1\n", "f:4 n=1\n"},
      {"a: &x 3\nb: *x\nc: !!str 4\nd: http://x:1/y\n", "f:1 a=3\nf:3 c=4\nf:4 d=http://x:1/y\n"},
      {"a: 1\n---\na: 2\n", "f:1 a=1\n"},
      {"{\"a\": {\"b\": [1, 2]}, \"c\": true}", "f:1 a.b=1,2\nf:1 c=true\n"},
      {"a: don't\nb: x#y\nc:\n", "f:1 a=don't\nf:2 b=x#y\n"},
      {"", ""},
  };
  for (const auto& each : cases) EXPECT_EQ(Told(ReadYaml(each.text, "f")), each.expected);
}

TEST(Yaml, ReportsTheLineOfAMistake) {
  EXPECT_EQ(Told(ReadYaml("a: 1\n\tb: 2\n", "f.yaml")),
            "f.yaml:2: expected spaces for indentation, not tabs");
  EXPECT_EQ(Told(ReadYaml("a:\nb: [1,\n  2\n", "f.yaml")),
            "f.yaml:2: brackets or quotes are not closed");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_EQ(Told(ReadYaml(deep + std::string(100, ' ') + "b: 1", "f")),
            "f:34: expected at most 32 levels of nesting");
  EXPECT_FALSE(ReadYaml("a: " + std::string(100, '['), "f"));
  EXPECT_FALSE(ReadYaml("a: " + std::string(100, '[') + std::string(100, ']'), "f"));
}

TEST(JsonSettings, HaveTheSameFormAsYamlSettings) {
  EXPECT_EQ(Told(ReadJsonSettings(R"({"a":{"b":1.5,"c":[true,"x"]},"d":null})", "f.json")),
            "f.json a.b=1.5\nf.json a.c=true,x\nf.json d=null\n");
  EXPECT_EQ(Told(ReadJsonSettings("[]", "f.json")), "f.json: expected an object");
  EXPECT_FALSE(ReadJsonSettings("{", "f.json"));
}

}  // namespace
}  // namespace carma::estimate
