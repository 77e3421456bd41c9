#include "cli/client/completion.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

const std::vector<VerbWords> kSomeVerbs = {
    {.names = {"list", "ls"},
     .help = "List it's tasks",
     .options = {{"--user", 'u', true, "who"},
                 {"--state", 't', true, "which", {{"queued", "running"}, true}}}},
    {.names = {"trace"},
     .help = "Traces",
     .options = {{"--all", 'a', false, "all"}},
     .verbs = {{.names = {"info"},
                .help = "Look",
                .options = {{"--strict", 0, false, "no"},
                            {"--kind", 0, true, "of it", {{"philly", "pai"}, false}}}},
               {.names = {"window"}, .help = "Cut", .options = {{"--from", 0, true, "when"}}}}},
    {.names = {"estimate"},
     .help = "Predict",
     .options = {{"--batch", 'b', true, "how many"}},
     .verbs = {{.names = {"evaluate"}, .help = "Compare", .options = {}}},
     .takes_files = true},
    {.names = {"status"}, .help = "Show", .options = {}},
    {.names = {"config"},
     .help = "Keys",
     .options = {},
     .verbs = {{.names = {"show"}, .help = "Print", .options = {}, .words = {"a.b", "a.c"}}}},
    {.names = {"shell"},
     .help = "Pick",
     .options = {},
     .words = {"bash", "fish"},
     .takes_files = true}};

TEST(Completion, NamesVerbsAndOptionsInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = CompletionScript(shell, kSomeVerbs, {{"--json", 0, false, "JSON"}});
    ASSERT_TRUE(script);
    for (const char* word :
         {"list", "ls", "status", "user", "json", "trace", "info", "window", "strict", "from"}) {
      EXPECT_NE(script->find(word), std::string::npos) << shell << " " << word;
    }
  }
  EXPECT_FALSE(CompletionScript("csh", kSomeVerbs, {}));
}

// The completions that bash offers for the last word of this line.
std::string Offered(const std::string& script, const std::string& line) {
  const std::string path = ::testing::TempDir() + "/completion.bash";
  std::ofstream(path) << script << "COMP_WORDS=(" << line
                      << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_carma\n"
                         "echo \"${COMPREPLY[*]}\"\n";
  std::string offered;
  if (std::FILE* out = ::popen(("bash " + path).c_str(), "r")) {
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, out)) offered += buffer;
    ::pclose(out);
  }
  return offered;
}

TEST(Completion, OffersTheCallersTasksInBash) {
  // A stand-in for the command, which prints its arguments.
  const std::string folder = ::testing::TempDir() + "/completion_bin";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/carma") << "#!/bin/sh\n"
                                      "case \"$*\" in *--all*) echo ' 3 old failed' ;; esac\n"
                                      "echo '41 train.py queued'\necho '42 train.py running'\n";
  std::filesystem::permissions(folder + "/carma", std::filesystem::perms::owner_all);
  const std::string path = "PATH=" + folder + ":$PATH\n";
  const std::vector<VerbWords> verbs{
      {.names = {"cancel"}, .help = "End", .options = {}, .tasks = TaskNames::kOpen},
      {.names = {"logs"}, .help = "Read", .options = {}, .tasks = TaskNames::kAll}};
  const auto script = CompletionScript("bash", verbs, {{"--json", 0, false, "JSON"}});
  ASSERT_TRUE(script);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"carma cancel ''", "41 42\n"},        {"carma cancel 42", "42\n"},
      {"carma cancel 41,", "41,41 41,42\n"}, {"carma cancel 40 4", "41 42\n"},
      {"carma cancel --", "--json\n"},       {"carma logs ''", "3 41 42\n"},
      {"carma cancel /dev/nul", "\n"},
  };
  for (const auto& [line, offered] : cases)
    EXPECT_EQ(Offered(path + *script, line), offered) << line;
}

TEST(Completion, OffersSubVerbsAndTheirOptionsInBash) {
  const auto script = CompletionScript("bash", kSomeVerbs, {{"--json", 0, false, "JSON"}});
  ASSERT_TRUE(script);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"carma ''", "list ls trace estimate status config shell\n"},
      {"carma ls -t ''", "queued running\n"},
      {"carma list --state r", "running\n"},
      {"carma list --state queued,r", "queued,running\n"},
      {"carma list --state = r", "running\n"},
      {"carma list --state =", "queued running\n"},
      {"carma trace info --kind p", "philly pai\n"},
      {"carma trace info --kind philly,p", "\n"},
      {"carma trace window --kind /dev/nul", "/dev/null\n"},
      {"carma config show a", "a.b a.c\n"},
      {"carma shell b", "bash\n"},
      {"carma --json st", "status\n"},
      {"carma trace ''", "info window\n"},
      {"carma --socket x trace w", "window\n"},
      {"carma trace --a", "--all\n"},
      {"carma trace info --", "--strict --kind --json\n"},
      {"carma trace window --f", "--from\n"},
      {"carma ls -", "--user -u --state -t --json\n"},
      {"carma trace /dev/nul", "\n"},
      {"carma estimate /dev/nul", "/dev/null\n"},
      {"carma estimate ev", "evaluate\n"},
      {"carma estimate -b /dev/nul", "/dev/null\n"},
  };
  for (const auto& [line, offered] : cases) EXPECT_EQ(Offered(*script, line), offered) << line;
}

TEST(Completion, OffersFileNamesWithSpacesAndStarsInBash) {
  const auto script = CompletionScript("bash", kSomeVerbs, {});
  ASSERT_TRUE(script);
  const std::string folder = ::testing::TempDir() + "/completion_files";
  std::filesystem::create_directories(folder);
  for (const char* name : {"my data", "my*"}) std::ofstream(folder + "/" + name);
  const std::string before = "cd '" + folder + "'\necho() { printf '<%s>' \"${COMPREPLY[@]}\"; }\n";
  for (const char* line : {"carma status m", "carma estimate m"}) {
    const std::string offered = Offered(before + *script, line);
    EXPECT_TRUE(offered == "<my data><my*>" || offered == "<my*><my data>") << offered;
  }
}

TEST_F(App, CompletesEveryOptionOfSubmit) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Ran ran = Run({"completion", shell});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    for (const char* word : {"submit", "memory", "dependency", "watch", "drain"})
      EXPECT_NE(ran.out.find(word), std::string::npos) << shell << " " << word;
  }
}

}  // namespace
}  // namespace carma::cli
