// Tests carma top in a real terminal (tmux) with 80 and with 160 columns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/terminal.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

bool HasTmux() {
  return RunProgram({"sh", "-c", "command -v tmux"}).Ok();
}

// A terminal of the given size in which `carma top` runs. before: commands of the shell that starts
// it; after: redirections.
class TopScreen {
 public:
  TopScreen(const Site& site, int columns, int rows = 24, const std::string& before = "",
            const std::string& after = "")
      : folder_(site.folder().path()) {
    const Ran ran =
        Tmux({"new-session", "-d", "-x", std::to_string(columns), "-y", std::to_string(rows),
              before + " exec " + Program("carma") + " --socket " + site.socket() +
                  " top --interval 0.2" + after});
    EXPECT_TRUE(ran.Ok()) << ran.Text();
  }
  ~TopScreen() { Close(); }

  void Close() { Tmux({"kill-server"}); }

  void Press(const std::string& key) { EXPECT_TRUE(Tmux({"send-keys", key}).Ok()); }
  std::string Text() const { return Tmux({"capture-pane", "-p"}).out; }
  bool Shows(const std::string& text) const {
    return Eventually([&] { return Text().find(text) != std::string::npos; });
  }
  bool Gone() const {
    return Eventually([&] { return !Tmux({"list-sessions"}).Ok(); });
  }
  void Resize(int columns, int rows) {
    EXPECT_TRUE(
        Tmux({"resize-window", "-x", std::to_string(columns), "-y", std::to_string(rows)}).Ok());
  }

 private:
  Ran Tmux(Words words) const {
    words.insert(words.begin(), {"tmux", "-u", "-S", folder_ + "/tmux", "-f", "/dev/null"});
    return RunProgram(words,
                      {.environment = {{"LC_ALL", "C.UTF-8"}, {"TERM", "xterm"}, {"TMUX", ""}}});
  }

  std::string folder_;
};

class TopSystem : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasTmux()) GTEST_SKIP() << "needs Debian's package tmux";
    site.Start();
  }
  Site site{{.shape = "2xA100-40GB"}};
};

TEST_F(TopSystem, ShowsGpusAndTasksAndActsOnThem) {
  Gated first(site, "first");
  const std::uint64_t runs =
      first.Submit(site, "exit 0", {"--exclusive", "-G", "2", "-J", "big-train"});
  ASSERT_EQ(first.Hear(), "1");
  const std::uint64_t waits = site.Submit({"-J", "small", "--memory", "2G", "--", "true"});
  TopScreen screen(site, 80);
  ASSERT_TRUE(screen.Shows("1 running, 1 waiting")) << screen.Text();
  ASSERT_TRUE(screen.Shows("(Exclusive")) << screen.Text();
  EXPECT_THAT(screen.Text(), HasSubstr("big-train"));
  const std::string shown = screen.Text();
  for (const std::string_view line : base::Split(shown, '\n'))
    EXPECT_LE(cli::ShownWidth(line), 80U) << line;
  // Opens a task's pages, including the one that explains why it is waiting, and goes back.
  screen.Press("Down");
  screen.Press("Enter");
  ASSERT_TRUE(screen.Shows("Task 2")) << screen.Text();
  screen.Press("Escape");
  ASSERT_TRUE(screen.Shows("1 waiting"));
  screen.Press("e");
  ASSERT_TRUE(screen.Shows("Why task 2 is waiting, or why it runs where it does")) << screen.Text();
  screen.Press("q");
  // Holds, releases and cancels the task. Cancelling requires confirmation.
  screen.Press("h");
  ASSERT_TRUE(screen.Shows("(Held)")) << screen.Text();
  screen.Press("h");
  ASSERT_TRUE(screen.Shows("(Exclusive")) << screen.Text();
  screen.Press("c");
  ASSERT_TRUE(screen.Shows("End task 2? y or n")) << screen.Text();
  screen.Press("y");
  EXPECT_EQ(site.Await(waits).state, "cancelled");
  ASSERT_TRUE(screen.Shows("0 waiting"));
  EXPECT_EQ(site.Task(runs).state, "running");
  screen.Press("q");
  EXPECT_TRUE(screen.Gone());
  first.Open();
}

TEST_F(TopSystem, ListsTasksInQueueOrder) {
  Gated first(site, "first");
  first.Submit(site, "exit 0", {"--exclusive", "-G", "2"});
  ASSERT_EQ(first.Hear(), "1");
  site.Submit({"-J", "held-task", "--hold", "--memory", "2G", "--", "true"});
  site.Submit({"-J", "first-task", "--memory", "2G", "--", "true"});
  TopScreen screen(site, 80);
  ASSERT_TRUE(screen.Shows("1 running, 2 waiting")) << screen.Text();
  const std::string text = screen.Text();
  EXPECT_LT(text.find("first-task"), text.find("held-task")) << text;
  EXPECT_NE(text.find("held-task"), std::string::npos) << text;
  first.Open();
}

TEST_F(TopSystem, AWideScreenShowsATasksLastOutput) {
  Bell bell(site.folder() / "bell");
  const std::uint64_t id = site.Submit({"-J", "noisy", "--", "sh", "-c",
                                        "printf 'epoch 1\\n 10%%\\r 20%% of epoch 2'; echo up > " +
                                            bell.path() + "; exec sleep 600"});
  ASSERT_TRUE(bell.Hear());
  TopScreen screen(site, 160, 40);
  ASSERT_TRUE(screen.Shows("20% of epoch 2")) << screen.Text();
  EXPECT_THAT(screen.Text(), HasSubstr("A100"));
  screen.Resize(90, 20);
  ASSERT_TRUE(screen.Shows("q quit")) << screen.Text();
  screen.Press("l");
  ASSERT_TRUE(screen.Shows("End of task " + std::to_string(id) + "'s output"));
  ASSERT_TRUE(screen.Shows("epoch 1")) << screen.Text();
}

TEST_F(TopSystem, ALostDaemonIsReportedUntilItReturns) {
  TopScreen screen(site, 80);
  ASSERT_TRUE(screen.Shows("0 running, 0 waiting")) << screen.Text();
  site.Stop(SIGKILL);
  ASSERT_TRUE(screen.Shows("carmad is not running")) << screen.Text();
  site.Start();
  EXPECT_TRUE(
      Eventually([&] { return screen.Text().find("carmad is not running") == std::string::npos; }));
}

TEST_F(TopSystem, EndsWithItsTerminalEvenIfHangupsAreIgnored) {
  const std::string pid_file = site.folder() / "pid";
  TopScreen screen(site, 80, 24, "trap '' HUP; echo $$ > " + pid_file + ";");
  ASSERT_TRUE(screen.Shows("0 running")) << screen.Text();
  screen.Close();
  const std::string ended =
      "p=$(cat " + pid_file + "); ! kill -0 $p 2> /dev/null || grep -q '^State:.Z' /proc/$p/status";
  EXPECT_TRUE(Eventually([&] { return RunProgram({"sh", "-c", ended}).Ok(); }));
}

TEST_F(TopSystem, AnUnknownTerminalIsReported) {
  const std::string errors = site.folder() / "errors";
  TopScreen screen(site, 80, 24, "export TERM=no-such-terminal;", " 2> " + errors);
  EXPECT_TRUE(screen.Gone());
  EXPECT_THAT(ReadText(errors), HasSubstr("does not know the terminal 'no-such-terminal'"));
}

TEST_F(TopSystem, SuggestsOtherCommandsWithoutATerminal) {
  const Ran ran = site.Carma({"top"});
  EXPECT_EQ(ran.code, 2) << ran.Text();
  EXPECT_THAT(ran.err, HasSubstr("top: expected a terminal"));
  EXPECT_THAT(site.Carma({"top", "--json"}).out, HasSubstr("\"gpus\""));
}

}  // namespace
}  // namespace carma::system_test
