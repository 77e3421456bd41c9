// Tests what all commands have in common: usage errors, help, and a missing daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

TEST_F(App, MistakesSuggestTheNearestWord) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"submit", "--tiem", "2h", "true"}, "carma: unknown option --tiem, did you mean --time?"},
      {{"list", "--stat=all"}, "carma: unknown option --stat, did you mean --state?"},
      {{"drain"}, "carma: expected gpus, for example: carma drain 0,2 --reason"},
      {{"sbmit"}, "carma: no verb 'sbmit', did you mean submit?"},
      {{"kill", "7"}, "carma: no verb 'kill', did you mean carma cancel?"},
      {{"squeue"}, "carma: no verb 'squeue', did you mean carma list?"},
      {{"tail", "7"}, "carma: no verb 'tail', did you mean carma logs -f?"},
      {{"unhold", "7"}, "carma: no verb 'unhold', did you mean carma release?"},
      {{"submit", "--gpu-memory", "8G"},
       "carma: unknown option --gpu-memory, did you mean --gpu-mem?"},
      {{"submit", "--dry-run"}, "carma: unknown option --dry-run, did you mean --check?"},
      {{"edit", "--bogus"}, "carma: unknown option --bogus"},
      {{"priority", "--bogus", "3"}, "carma: unknown option --bogus"},
      {{"drain", "--reson"}, "carma: unknown option --reson, did you mean --reason?"},
      {{"list", "-u"}, "carma: --user (-u): expected a value (NAME)"},
      {{"list", "--limit"}, "carma: --limit: expected a value (N)"},
      {{"list", "--name"}, "carma: --name: expected a value (NAME)"},
      {{"wait", "--timeout", "x"}, "carma: --timeout: 'x'"},
      {{"submit", "-J", "a\nb", "true"}, "carma: --job-name: expected 1 to 256 bytes"},
      {{"submit", "true", "a", "\xff"}, "carma: argument 2: expected UTF-8"},
      {{"edit", "7", "-J", "a\nb"}, "carma: --job-name: expected 1 to 256 bytes"},
      {{"-V"}, "carma: unknown option -V (see carma --help)"},
      {{"submit", "-p", "gpu", "true"}, "carma: unknown option -p (see carma submit --help)"},
      {{"list", "--interval", "0"}, "carma: --interval: expected a number from 0.1 to 3600, not"},
  };
  for (const auto& [words, expected] : cases) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.err.substr(0, std::string(expected).size()), expected);
  }
}

TEST_F(App, WithoutAVerbItPrintsTheMostCommonOnes) {
  const Ran ran = RunWords("", {});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.err.find("carma submit train.sh"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("carma gpus"), std::string::npos);
}

TEST_F(App, AMistypedVerbIsGuessedAndHelpIsAVerb) {
  EXPECT_THAT(Run({"lst"}).err, ::testing::HasSubstr("no verb 'lst', did you mean list?"));
  EXPECT_THAT(Run({"frobnicate"}).err, ::testing::HasSubstr("(see carma --help)"));
  EXPECT_THAT(Run({"help"}).out, ::testing::HasSubstr("submit"));
  EXPECT_EQ(Run({"help", "gpus"}).out, Run({"gpus", "--help"}).out);
}

TEST_F(App, MistakesOfTheCallerAreOneLineAndExitCodeTwo) {
  const std::vector<std::vector<std::string>> cases = {
      {"frobnicate"},
      {"list", "surplus"},
      {"list", "--limit", "0"},
      {"list", "-o", "colour"},
      {"show", "x"},
      {"submit"},
      {"submit", "--gpus"},
      {"submit", "--no-such-option", "true"},
      {"submit", "-G", "x", "true"},
      {"logs", "-f", "1-2"},
      {"wait", "--timeout", "soon", "1"},
      {"completion", "csh"},
      {"priority", "high", "3"},
      {"--no-such-flag", "list"},
  };
  for (const auto& words : cases) {
    const Ran ran = Run(words);
    const std::string& what = words[0];
    EXPECT_EQ(ran.exit_code, 2) << what << ": " << ran.err;
    EXPECT_EQ(ran.out, "") << what;
    EXPECT_TRUE(ran.err.starts_with("carma: ") && ran.err.find('\n') == ran.err.size() - 1)
        << what << ": " << ran.err;
  }
}

TEST_F(App, OptionsThatExcludeEachOtherAreNamed) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"reserve", "list", "--for", "ada"},
        std::vector<std::string>{"reserve", "--for", "ada", "list"}}) {
    EXPECT_EQ(Run(words).err,
              "carma: carma reserve list takes no --for (see carma reserve list --help)\n");
  }
  EXPECT_EQ(Run({"usage", "--csv", "--json"}).err,
            "carma: --csv cannot be combined with --json (see carma usage --help)\n");
}

TEST_F(App, AnInvalidNumberIsReportedWithAnExample) {
  EXPECT_THAT(Run({"reserve", "list", "--nope"}).err,
              ::testing::HasSubstr("(see carma reserve list --help)"));
  EXPECT_THAT(
      Run({"priority", "@", "5"}).err,
      ::testing::HasSubstr("priority: expected a number, not '@', for example: carma priority"));
}

TEST_F(App, AMissingFileIsAUsageError) {
  const std::string none = daemon_.dir() + "/none";
  const std::vector<std::vector<std::string>> cases = {
      {"submit", none + ".rad"}, {"submit", "--batch", none},           {"estimate", none},
      {"report", none},          {"config", "check", "--config", none},
  };
  for (const auto& words : cases) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 2) << words[0] << " " << words[1] << ": " << ran.err;
    EXPECT_NE(ran.err.find("No such file"), std::string::npos) << ran.err;
  }
}

TEST_F(App, VerbsOfTheLaboratoryNeedItsProgram) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"simulate"}, {"trace", "info", "x"}, {"estimate", "evaluate"}}) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 1) << words[0];
    EXPECT_NE(ran.err.find("needs carma-lab, which is not installed"), std::string::npos)
        << ran.err;
  }
  EXPECT_NE(Run({"--help"}).out.find("simulate"), std::string::npos);
  EXPECT_NE(Run({"estimate", "--help"}).out.find("evaluate"), std::string::npos);
}

TEST_F(App, EveryVerbReportsAMissingDaemon) {
  for (const char* verb :
       {"list", "show", "gpus", "status", "history", "wait", "explain", "logs"}) {
    const Ran ran = RunWords(daemon_.dir() + "/none", {verb});
    EXPECT_EQ(ran.exit_code, 1) << verb;
    EXPECT_NE(ran.err.find("carmad is not running at " + daemon_.dir() + "/none"),
              std::string::npos)
        << verb << ": " << ran.err;
  }
}

TEST_F(App, EveryVerbHasHelpWithAnExample) {
  const Ran all = Run({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  for (const char* verb :
       {"submit", "list",   "show", "cancel",  "hold",       "release", "requeue",
        "wait",   "logs",   "gpus", "explain", "drain",      "resume",  "history",
        "status", "backup", "redo", "token",   "completion", "version", "edit"}) {
    EXPECT_NE(all.out.find(std::string("\n  ") + verb), std::string::npos) << verb;
    const Ran help = Run({verb, "--help"});
    EXPECT_EQ(help.exit_code, 0) << verb;
    EXPECT_NE(help.out.find("  carma " + std::string(verb)), std::string::npos) << verb;
  }
  EXPECT_EQ(Run({"version"}).out, "carma 1.2.3 (of today)\n");
  EXPECT_EQ(Run({"--version"}).out, "carma 1.2.3 (of today)\n");
}

}  // namespace
}  // namespace carma::cli
