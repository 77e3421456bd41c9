#include "estimate/recipe/settings.h"

#include <gtest/gtest.h>

#include <string>

namespace carma::estimate {
namespace {

std::string TomlText(const Result<std::vector<Setting>>& settings) {
  if (!settings) return settings.error().message;
  std::string told;
  for (const Setting& each : *settings)
    told += each.from + " " + each.key + "=" + each.value + "\n";
  return told;
}

TEST(Toml, ReadsConfigurations) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {"a = 1\n[training] # of one step\nseq_len = 8_192\nname = \"two # words\"\n",
       "f:1 a=1\nf:3 training.seq_len=8192\nf:4 training.name=two # words\n"},
      {"[a.\"b.c\"]\nd.e = 'x'\n", "f:2 a.b.c.d.e=x\n"},
      {"[m]\nparts = [\"model\",\n  \"loss\", # both\n]\nnext = true\n",
       "f:2 m.parts=model,loss\nf:5 m.next=true\n"},
      {"[[data]]\npath = 'p'\n[[data]]\npath = 'q'\n", "f:2 data.0.path=p\nf:4 data.1.path=q\n"},
      {"t = { a = 1, b = { c = \"x, y\" }, l = [1, 2] }\n",
       "f:1 t.a=1\nf:1 t.b.c=x, y\nf:1 t.l=1,2\n"},
      {"text = \"\"\"\n[no] = table\n\"\"\"\none = '''x'''\nn = -1e-3\n", "f:5 n=-1e-3\n"},
      {"s = \"a \\\"b\\\"\"\r\n", "f:1 s=a \"b\"\n"},
      {"", ""},
  };
  for (const auto& each : cases) EXPECT_EQ(TomlText(ReadToml(each.text, "f")), each.expected);
}

TEST(Toml, ReportsTheLineOfAMistake) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {"a = 1\nno key\n", "f:2: expected [table], key = value or a comment"},
      {"[open\n", "f:1: expected [table], key = value or a comment"},
      {"a =\n", "f:1: expected a value"},
      {"a = \"x\n", "f:1: expected a properly quoted string"},
      {"\na = [1,\n2\n", "f:4: the last list, table or string is not closed"},
      {"a = { b }\n", "f:1: expected key = value in an inline table"},
  };
  for (const auto& each : cases) EXPECT_EQ(TomlText(ReadToml(each.text, "f")), each.expected);
}

}  // namespace
}  // namespace carma::estimate
