// Tests the shell completions and the help of `carma`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;

TEST(Shells, EveryVerbExplainsItself) {
  for (const char* verb :
       {"submit", "list",   "show",    "cancel",     "hold",    "release",  "requeue", "wait",
        "logs",   "gpus",   "explain", "drain",      "resume",  "history",  "status",  "redo",
        "trace",  "report", "config",  "completion", "version", "priority", "init",    "edit"}) {
    const Ran ran = RunProgram({Program("carma"), verb, "--help"});
    EXPECT_EQ(ran.code, 0) << verb << ": " << ran.Text();
    EXPECT_THAT(ran.out, HasSubstr(verb)) << verb;
    EXPECT_EQ(ran.err, "") << verb;
  }
  for (const char* program : {"carma", "carmad", "carma-simgpu", "carma-simtask"}) {
    const Ran help = RunProgram({Program(program), "--help"});
    EXPECT_EQ(help.code, 0) << program << ": " << help.Text();
  }
  for (const char* program : {"carma", "carmad", "carma-reader", "carma-shim", "carma-simgpu"}) {
    const Ran version = RunProgram({Program(program), "--version"});
    EXPECT_EQ(version.code, 0) << program << ": " << version.Text();
    EXPECT_NE(version.out, "") << program;
  }
}

TEST(Shells, TheOptionOverridesTheVariableForASimulatedServer) {
  Folder folder;
  const Ran made = RunProgram({"/usr/bin/env", "CARMA_SIMGPU_STATE=" + (folder / "exported"),
                               Program("carma-simgpu"), "create", "--shape", "1xA100-40GB",
                               "--state", folder / "asked"});
  EXPECT_EQ(made.code, 0) << made.Text();
  EXPECT_NE(ReadText(folder / "asked"), "");
  EXPECT_EQ(ReadText(folder / "exported"), "");
}

TEST(Shells, CompletionIsAcceptedByTheShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Ran script = RunProgram({Program("carma"), "completion", shell});
    ASSERT_EQ(script.code, 0) << shell << ": " << script.Text();
    EXPECT_THAT(script.out, HasSubstr("requeue")) << shell;
    if (RunProgram({"/bin/sh", "-c", "command -v " + std::string(shell)}).code != 0) continue;
    Folder folder;
    WriteText(folder / "completion", script.out);
    const Ran parsed = RunProgram({shell, "-n", folder / "completion"});
    EXPECT_EQ(parsed.code, 0) << shell << ": " << parsed.Text();
    EXPECT_EQ(parsed.err, "") << shell;
  }
  EXPECT_EQ(RunProgram({Program("carma"), "completion", "tcsh"}).code, 2);
}

TEST(Shells, ConfigurationIsCheckedAndShown) {
  Folder folder;
  WriteText(folder / "carma.toml", "[policy]\nmapper = \"lug\"\n");
  const auto config = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {Program("carma"), "config"});
    words.insert(words.end(), {"--config", folder / "carma.toml"});
    return RunProgram(words);
  };
  const Ran shown = config({"show", "--origin"});
  EXPECT_EQ(shown.code, 0) << shown.Text();
  EXPECT_THAT(shown.out, HasSubstr("lug"));
  EXPECT_THAT(shown.out, HasSubstr("carma.toml:2"));
  const Ran good = config({"check"});
  EXPECT_EQ(good.code, 0) << good.Text();
  WriteText(folder / "carma.toml", "[policy]\nmapper = \"best\"\n");
  const Ran bad = config({"check"});
  EXPECT_EQ(bad.code, 2) << bad.Text();
  EXPECT_THAT(bad.err, HasSubstr("carma.toml:2"));
}

}  // namespace
}  // namespace carma::system_test
