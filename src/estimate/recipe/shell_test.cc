#include "estimate/recipe/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace carma::estimate {
namespace {

using ::testing::HasSubstr;

// Prints one command per line, with bars between words and '?' for unknown parts.
std::string CommandsIn(std::string_view script, const std::vector<std::string>& args = {},
                       const std::map<std::string, std::string>& environment = {}) {
  std::string told;
  for (const ShellCommand& command : CommandsOf(script, args, environment)) {
    std::vector<std::string> words;
    for (const ShellWord& word : command.words) words.push_back(word.known ? word.text : "?");
    told += std::to_string(command.line) + ":" + base::Join(words, "|") + "\n";
  }
  return told;
}

TEST(CommandsOf, ReadsWordsAsAShellDoes) {
  const struct {
    const char* script;
    const char* expected;
  } cases[] = {
      {"#!/bin/sh\n# comment\npython a.py --b 1 # more\n", "3:python|a.py|--b|1\n"},
      {"a 'b c' \"d e\" f\\ g ''", "1:a|b c|d e|f g|\n"},
      {"torchrun \\\n  --n 2 \\\n  t.py\nb", "1:torchrun|--n|2|t.py\n4:b\n"},
      {"a && b; c | d & e", "1:a\n1:b\n1:c\n1:d\n1:e\n"},
      {"if true; then\n python a.py\nfi", "1:true\n2:python|a.py\n3:fi\n"},
      {"python a.py > log 2>&1 < in &>> all", "1:python|a.py\n"},
      {"N=4\nA=\"--x $N\"\ntorchrun $A \"$A\" '$A' t", "3:torchrun|--x|4|--x 4|$A|t\n"},
      {"ARGS=(--a 1 # first\n --b \"2 3\")\nARGS+=(--c)\np \"${ARGS[@]}\" $ARGS",
       "4:p|--a|1|--b|2 3|--c|--a\n"},
      {"export X=5; p ${X} ${Y:-6} ${Y} ${Z-\"7\"} ${X%5}", "1:p|5|6|7|?\n"},
      {"LEN=$(wc -l \"a b)\" | cut -f 1)\np --len $LEN `date` $((1 + 2))", "2:p|--len|?|?|?\n"},
      {"for L in 1 2; do\np --len $L\ndone", "2:p|--len|?\n3:done\n"},
      {"cat <<EOF > ds.json\npython not.py\nEOF\np a", "1:cat\n4:p|a\n"},
      {"cat <<-'E'\n\tx\n\tE\np", "1:cat\n4:p\n"},
      {"S=--a\nS+=' --b'\np $S", "3:p|--a|--b\n"},
  };
  for (const auto& each : cases) EXPECT_EQ(CommandsIn(each.script), each.expected) << each.script;
}

TEST(CommandsOf, ExpandsArgumentsAndTheEnvironment) {
  EXPECT_EQ(CommandsIn("p $1 \"$2\" ${2} $3 \"$@\"", {"a", "b c"}), "1:p|a|b c|b|c|a|b c\n");
  EXPECT_EQ(CommandsIn("M=${1:-org/x}\np $M ${2:-7} ${10}", {"a"}), "2:p|a|7\n");
  EXPECT_EQ(CommandsIn("A=$1; shift\np $A $1 \"$@\"", {"a", "b", "c"}), "2:p|a|b|b|c\n");
  EXPECT_EQ(CommandsIn("shift 2\np x$1", {"a", "b"}), "2:p|x\n");
  EXPECT_EQ(CommandsIn("shift\np $1", {}), "2:p|?\n") << "a shell would fail";
  EXPECT_EQ(CommandsIn("p $M", {}, {{"M", "org/x"}}), "1:p|org/x\n");
}

TEST(CommandsOf, SetReplacesTheArgumentsOnlyIfItIsGivenSome) {
  for (const std::string options : {"set -e", "set -euo pipefail", "set +x", "set -o errexit"})
    EXPECT_THAT(CommandsIn(options + "\np $1", {"a"}), HasSubstr("2:p|a\n")) << options;
  for (const std::string replaced : {"set -- b", "set b c", "set --"})
    EXPECT_EQ(CommandsIn(replaced + "\np $1", {"a"}), "2:p|?\n") << replaced;
}

TEST(CommandsOf, ArgumentsThatALoopShiftsAreUnknown) {
  EXPECT_THAT(CommandsIn("while [ $# -gt 0 ]; do case $1 in\n--n) N=$2; shift 2;;\nesac; done\n"
                         "p --n $N",
                         {"--m", "9", "--n", "4"}),
              HasSubstr(":p|--n|?\n"));
  EXPECT_THAT(CommandsIn("until p \"$@\"; do sleep 1; done", {"a", "b"}), HasSubstr("1:p|a|b\n"));
}

TEST(CommandsOf, KeepsSettingsAndFolders) {
  const auto commands = CommandsOf("cd runs\ncd a\nA=1 B=\"x y\" p q", {}, {});
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].settings.at("B"), "x y");
  EXPECT_EQ(commands[0].folder, "runs/a");
  const auto exported = CommandsOf("export A=1\nB=2\nC=3\nexport B\np", {}, {});
  ASSERT_EQ(exported.size(), 1U);
  EXPECT_EQ(exported[0].settings, (std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}}));
}

TEST(CommandsOf, LimitsVariablesThatContainVariables) {
  std::string script = "A=0123456789\n";
  for (int i = 0; i < 60; ++i) script += "A=\"$A$A\"\n";
  EXPECT_LE(CommandsIn(script + "p $A").size(), 1'000'000U);
}

}  // namespace
}  // namespace carma::estimate
