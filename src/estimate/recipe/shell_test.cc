#include "estimate/recipe/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace carma::estimate {
namespace {

using ::testing::HasSubstr;

// Files that the scripts read with `source`.
Result<std::string> Sourced(const std::string& folder, const std::string& path) {
  const std::map<std::string, std::string> files{
      {"/env.sh", "BS=8\nexport M=org/x\npython in.py $BS $OUT\n"},
      {"/again.sh", ". again.sh; . again.sh\n"},
      {"runs/a.sh", "LEN=$((1 + 2))\n"}};
  const auto found = files.find(folder + "/" + path);
  if (found == files.end()) return NotFound("no such file");
  return found->second;
}

std::vector<ShellCommand> Commands(std::string_view script,
                                   const std::vector<std::string>& args = {},
                                   const std::map<std::string, std::string>& environment = {}) {
  ShellBranches branches;
  return CommandsOf(script, KnownWords(args), environment, &Sourced, branches);
}

// Prints one command per line, with bars between words and '?' for unknown parts.
std::string CommandsIn(std::string_view script, const std::vector<std::string>& args = {},
                       const std::map<std::string, std::string>& environment = {}) {
  std::string told;
  for (const ShellCommand& command : Commands(script, args, environment)) {
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
      {"A=()\np \"$@\" \"${A[@]}\" \"$B\" \"\" x\"$@\"", "2:p|||x\n"},
      {"p --a <(sort x) b > >(tee log) 2>&1 c", "1:p|--a|?|b|c\n"},
      {": ${B:=8} ${C:=\"9\"}\np $B $C", "1::|8|9\n2:p|8|9\n"},
      {"while read -r M B; do p $M $B; done < runs", "1:p|?|?\n1:done\n"},
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
  EXPECT_EQ(CommandsIn("p $SLURM_GPUS_ON_NODE ${CARMA_CPUS:-4} $OTHER"), "1:p|?|4\n");
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

TEST(CommandsOf, NotesWhatRunsInTheBackgroundOrInALoop) {
  std::string told;
  for (const ShellCommand& each :
       Commands("a && b &\nfor s in 1 2; do\n c &> log &\n d\ndone\ne 2>&1\n"))
    told += each.words[0].text + (each.background ? "&" : "") + (each.repeated ? "* " : " ");
  EXPECT_EQ(told, "a b& c&* d* done e ");
}

TEST(CommandsOf, ArraysInArraysDoNotExhaustTheStack) {
  std::string deep;
  for (int i = 0; i < 300'000; ++i) deep += "A=(";
  EXPECT_EQ(CommandsIn(deep + ")\np"), "2:p\n");
}

TEST(CommandsOf, KeepsSettingsAndFolders) {
  const auto commands = Commands("cd runs\ncd a\nA=1 B=\"x y\" p q");
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].settings.at("B"), "x y");
  EXPECT_EQ(commands[0].folder, "runs/a");
  const auto exported = Commands("export A=1\nB=2\nC=3\nexport B\np");
  ASSERT_EQ(exported.size(), 1U);
  EXPECT_EQ(exported[0].settings, (std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}}));
}

TEST(CommandsOf, ReadsSourcedFilesAndEvaluatedText) {
  EXPECT_EQ(CommandsIn("OUT=o\nsource env.sh\np $BS $M"), "3:python|in.py|8|o\n3:p|8|org/x\n");
  EXPECT_EQ(Commands("source env.sh\np")[0].file, "env.sh");
  EXPECT_EQ(Commands("source env.sh\np")[1].file, "");
  EXPECT_EQ(CommandsIn("cd runs && . a.sh\np $LEN $X"), "2:p|?\n") << "relative to the folder";
  EXPECT_EQ(CommandsIn("A=1\neval \"B=2; p $A\"\nq $B"), "2:p|1\n3:q|2\n");
  EXPECT_EQ(CommandsIn(". again.sh\np"), "2:p\n") << "the recursion ends";
  EXPECT_EQ(CommandsIn("source env.sh <<E\nx\nE\np"), "3:python|in.py|8\n4:p\n");
}

TEST(CommandsOf, AnUnreadTextMaySetAnyVariable) {
  for (const char* unread : {"source none.sh", "source $(find_it)", "eval \"$(conda hook)\""}) {
    const std::string commands = CommandsIn(
        "A=1\n" + std::string(unread) + "\np $A $B x/$B ${B:-3} $HOME", {}, {{"HOME", "/h"}});
    EXPECT_THAT(commands, HasSubstr("3:p|1|?|?|3|/h\n")) << unread;
  }
  EXPECT_EQ(CommandsIn("for L in 1 2; do p ${L:-3}; done"), "1:p|?\n1:done\n");
}

TEST(CommandsOf, AFunctionHasItsOwnArguments) {
  for (const char* begin : {"f() {", "f ()\n{", "function f {", "function f() {"}) {
    EXPECT_THAT(CommandsIn(std::string(begin) + "\nB=$1\np $B \"$2\" ${3:-4}\n}\nf 1\nq $1", {"a"}),
                ::testing::AllOf(HasSubstr(":p|?|?|?\n"), HasSubstr(":q|a\n")))
        << begin;
  }
  EXPECT_THAT(CommandsIn("f() {\nsource env.sh\np $1\n}\nf 2", {"a"}), HasSubstr("3:p|?\n"));
  EXPECT_THAT(CommandsIn("main() {\np \"$@\"\n}\nmain \"$@\"", {"a", "b"}), HasSubstr("2:p|a|b\n"));
}

TEST(CommandsOf, ReadsBranchesUpToANumber) {
  const std::string chain =
      "B=8 C=1\nif x; then B=16\nelif y; then B=2\nelse B=3; D=4\nfi\n[ z ] && C=5\np $B $C $D";
  const auto read = [](const std::string& script, int most) {
    ShellBranches branches{.most = most};
    const std::vector<ShellCommand> commands = CommandsOf(script, {}, {}, &Sourced, branches);
    std::string told = std::to_string(branches.seen);
    for (const ShellWord& word : commands.back().words) told += " " + word.text;
    return told;
  };
  EXPECT_EQ(read(chain, 9), "2 p 3 5 4");
  EXPECT_EQ(read(chain, 1), "2 p 2 5 4");
  EXPECT_EQ(read(chain, 0), "2 p 16 5 4");
  EXPECT_EQ(read(chain, -1), "2 p 8 1 4") << "a variable without an earlier value is set";
  const std::string choice = "A=(--x)\ncase $1 in\na) A=(--y) ;;\nb) A+=(--z) ;;\nesac\np ${A[@]}";
  EXPECT_EQ(read(choice, 0), "1 p --y");
  EXPECT_EQ(read(choice, 1), "1 p --y --z");
  EXPECT_EQ(read("B=8\nif x; then B=8; fi\nB=9\np $B", -1), "-1 p 9") << "nothing to decide";
}

TEST(CommandsOf, LimitsVariablesThatContainVariables) {
  std::string script = "A=0123456789\n";
  for (int i = 0; i < 60; ++i) script += "A=\"$A$A\"\n";
  EXPECT_LE(CommandsIn(script + "p $A").size(), 1'000'000U);
}

}  // namespace
}  // namespace carma::estimate
