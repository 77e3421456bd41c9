#include "cli/top/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/terminal.h"

namespace carma::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Kind = TopWish::Kind;

std::string TextOf(const TopLine& line) {
  std::string text;
  for (const TopPiece& piece : line) text += piece.text;
  return text;
}

std::vector<std::uint64_t> Ids(const std::vector<const api::TaskView*>& tasks) {
  std::vector<std::uint64_t> ids;
  for (const api::TaskView* task : tasks) ids.push_back(task->id);
  return ids;
}

TopStroke Letter(char letter) {
  return {TopKey::kCharacter, letter};
}

class Top : public ::testing::Test {
 protected:
  Top() {
    data.server.host = "gpu7";
    data.server.now_ms = 1'767'225'600'000;
    api::GpuGlance gpu;
    gpu.name = "NVIDIA A100-SXM4-40GB";
    gpu.state = "mix";
    gpu.total_mib = 40'960;
    gpu.used_mib = 20'480;
    gpu.promised_mib = 30'720;
    gpu.sm_active = 0.63;
    gpu.power_w = 240;
    gpu.temperature_c = 61;
    gpu.recent = {0, 50, 100};
    gpu.tasks.push_back({.id = 1});
    data.server.gpus = {gpu, gpu};
    data.server.gpus[1].index = 1;
    data.server.gpus[1].state = "down";
    data.server.gpus[1].trouble = "the driver lost it";
    data.tasks = {Task(1, "train.py", "ann", "running"), Task(2, "eval", "bob", "queued"),
                  Task(3, "train.py", "bob", "queued")};
    data.tasks[0].launched_ms = data.server.now_ms - 65'000;
    data.tasks[0].observed_mib = 11'264;
    data.tasks[0].claim_mib = 12'288;
    data.tasks[0].gpu_indices = {0};
    data.output[1] = "epoch 3: loss 0.42";
    data.tasks[1].reason = "GpuMemory";
    data.tasks[1].reason_text = "GPU 0 has 2.0G of 12.0G.";
    data.tasks[1].predicted_mib = 12'288;
    data.tasks[2].reason = "Held";
    data.server.task_counts = {{"queued", 2}, {"running", 1}, {"failed", 7}};
    state.user = "bob";
  }
  api::TaskView Task(std::uint64_t id, std::string name, std::string user, std::string kind) {
    api::TaskView task;
    task.id = id;
    task.name = std::move(name);
    task.user = std::move(user);
    task.state = std::move(kind);
    task.submitted_ms = data.server.now_ms - 120'000 - static_cast<std::int64_t>(id) * 1000;
    if (task.state == "queued") task.waiting_since_ms = task.submitted_ms;
    return task;
  }
  std::vector<std::string> Lines(TopSize size = {}) {
    std::vector<std::string> lines;
    for (const TopLine& line : DrawTop(data, state, size)) lines.push_back(TextOf(line));
    return lines;
  }
  TopWish Press(TopStroke stroke) { return TakeStroke(stroke, data, {}, state); }

  TopData data;
  TopState state;
};

TEST_F(Top, ReasonsHaveTheReadersTime) {
  data.tasks[1].reason_text = "May not start before 2026-03-01T13:05:59.120Z.";
  EXPECT_THAT(Lines({24, 160}), ::testing::Contains(HasSubstr("before 2026-03-01 ")));
}

TEST_F(Top, ShowsTheServerInEightyColumns) {
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 24U);
  EXPECT_THAT(lines[0], AllOf(StartsWith("gpu7  "),
                              HasSubstr("1 running, 2 waiting, 40.0G of 80.0G used, 480 W")));
  EXPECT_EQ(lines[1], " 0 [||||||||||:::::     ] 20.0G/40.0G           ▁▅█  63%  240W 61C  1");
  EXPECT_THAT(lines[2], HasSubstr("down: the d"));
  EXPECT_EQ(lines[3], "    ID NAME             USER     ST   RUN/WAIT GPU          MEM ");
  EXPECT_EQ(lines[4],
            "     1 train.py         ann      R        1:05 0    11.0G/12.0G epoch 3: loss 0…");
  EXPECT_EQ(lines[5],
            "     2 eval             bob      PD       2:02 x1        ~12.0G (GpuMemory) GPU…");
  EXPECT_THAT(lines[23], AllOf(StartsWith("Enter details  e why"), EndsWith("q quit")));
  for (const std::string& line : lines) EXPECT_LE(ShownWidth(line), 80U) << line;
}

TEST_F(Top, NamesMemoryAndWaitingTimesAreThoseOfTheList) {
  data.tasks[0].array_index = 2;
  data.tasks[0].observed_mib = 0;
  data.tasks[0].claim_mib = 0;
  data.tasks[1].bound_mib = 16'384;
  data.tasks[1].waiting_since_ms = data.server.now_ms - 5000;  // it was requeued
  data.tasks[2].peak_mib = 20'480;                             // it ran out of memory
  const std::vector<std::string> lines = Lines();
  EXPECT_THAT(lines[4],
              StartsWith("     1 train.py[2]      ann      R        1:05 0           0M/- "));
  EXPECT_THAT(lines[5], HasSubstr(" PD       0:05 x1        ~12.0G "));
  EXPECT_THAT(lines[6], HasSubstr(" ~20.0G "));
}

TEST_F(Top, CountsTasksBeyondTheListedOnes) {
  data.server.task_counts = {{"queued", 2000}, {"running", 1}};
  EXPECT_THAT(Lines()[0], HasSubstr("1 running, 2000 waiting"));
}

TEST_F(Top, AWideScreenShowsMore) {
  const std::vector<std::string> lines = Lines({.rows = 40, .columns = 160});
  ASSERT_EQ(lines.size(), 40U);
  EXPECT_THAT(lines[1], HasSubstr("NVIDIA A100-SXM4-40GB"));
  EXPECT_THAT(lines[4], HasSubstr("epoch 3: loss 0.42"));
  EXPECT_THAT(lines[5], HasSubstr("(GpuMemory) GPU 0 has 2.0G of 12.0G."));
}

TEST_F(Top, AScreenWithoutUtf8HasBarsOfLetters) {
  const std::vector<std::string> lines = Lines({.blocks = false});
  EXPECT_THAT(lines[1], HasSubstr(".=#  63%"));
}

TEST_F(Top, WorksOnTinyScreens) {
  for (const int rows : {0, 1, 2, 3, 5, 7}) {
    for (const int columns : {0, 1, 10, 79}) {
      for (const TopPage page : {TopPage::kTasks, TopPage::kHelp}) {
        state.page = page;
        for (const std::string& line : Lines({.rows = rows, .columns = columns}))
          EXPECT_LE(ShownWidth(line), static_cast<std::size_t>(columns));
      }
    }
  }
}

TEST_F(Top, ShowsProblemsAtTheTop) {
  data.server.troubles = {"the disk is nearly full"};
  EXPECT_EQ(Lines()[1], "the disk is nearly full");
  data.trouble = "carmad is not running";
  EXPECT_EQ(Lines()[1], "carmad is not running");
}

TEST_F(Top, KeysMoveTheSelectionAndItStaysOnTheScreen) {
  for (std::uint64_t id = 4; id <= 60; ++id) data.tasks.push_back(Task(id, "t", "ann", "queued"));
  Lines();
  EXPECT_EQ(state.selected, 1U);
  Press({TopKey::kDown});
  EXPECT_EQ(state.selected, 2U);
  Press({TopKey::kEnd});
  EXPECT_EQ(state.selected, 60U);
  std::vector<std::string> lines = Lines();
  EXPECT_THAT(lines[22], StartsWith("    60 "));
  Press({TopKey::kPageUp});
  lines = Lines();
  EXPECT_EQ(state.selected, 41U);
  Press({TopKey::kHome});
  EXPECT_THAT(Lines()[4], StartsWith("     1 "));
  // The selected task stays selected when other tasks disappear.
  state.selected = 30;
  data.tasks.erase(data.tasks.begin(), data.tasks.begin() + 5);
  Lines();
  EXPECT_EQ(state.selected, 30U);
}

TEST_F(Top, FilterShowsOnlyMatchingTasks) {
  EXPECT_THAT(Ids(ShownTasks(data, state)), ElementsAre(1, 2, 3));
  Press(Letter('/'));
  for (const char letter : std::string("TRAIN")) Press(Letter(letter));
  EXPECT_THAT(Lines()[23], HasSubstr("Only tasks with: TRAIN_"));
  Press({TopKey::kBackspace});
  Press({TopKey::kEnter});
  EXPECT_THAT(Ids(ShownTasks(data, state)), ElementsAre(1, 3));
  Press(Letter('u'));
  EXPECT_THAT(Ids(ShownTasks(data, state)), ElementsAre(3));
  Press(Letter('/'));
  Press({TopKey::kEscape});
  EXPECT_THAT(Ids(ShownTasks(data, state)), ElementsAre(2, 3));
}

TEST_F(Top, SortsTasksAsRequested) {
  Press(Letter('s'));
  EXPECT_THAT(Ids(ShownTasks(data, state)), ElementsAre(1, 2, 3)) << "by user";
  Press(Letter('s'));
  EXPECT_THAT(Ids(ShownTasks(data, state)), ElementsAre(2, 1, 3)) << "by memory";
  Press(Letter('s'));
  EXPECT_THAT(Ids(ShownTasks(data, state)), ElementsAre(3, 2, 1)) << "by time";
  EXPECT_THAT(Lines()[3], HasSubstr("by time"));
}

TEST_F(Top, CancelsOnlyAfterConfirmation) {
  Lines();
  EXPECT_EQ(Press(Letter('c')).kind, Kind::kNothing);
  EXPECT_THAT(Lines()[23], HasSubstr("End task 1? y or n"));
  EXPECT_EQ(Press(Letter('n')).kind, Kind::kNothing);
  EXPECT_EQ(Press(Letter('y')).kind, Kind::kNothing) << "the prompt is closed";
  Press(Letter('c'));
  const TopWish wish = Press(Letter('y'));
  EXPECT_EQ(wish.kind, Kind::kCancel);
  EXPECT_EQ(wish.task, 1U);
}

TEST_F(Top, HoldsOnlyWaitingTasks) {
  Lines();
  EXPECT_EQ(Press(Letter('h')).kind, Kind::kNothing) << "it runs";
  state.selected = 2;
  EXPECT_EQ(Press(Letter('h')).kind, Kind::kHold);
  state.selected = 3;
  EXPECT_EQ(Press(Letter('h')).kind, Kind::kRelease);
}

TEST_F(Top, PagesAreOpenedReadAndLeft) {
  Lines();
  EXPECT_EQ(Press({TopKey::kEnter}).kind, Kind::kRefresh);
  data.page = "one two three " + std::string(100, 'x') + "\nlast";
  std::vector<std::string> lines = Lines();
  EXPECT_EQ(lines[1], "Task 1");
  EXPECT_EQ(lines[2], "one two three");
  EXPECT_EQ(lines[3], std::string(80, 'x'));
  EXPECT_EQ(lines[4], std::string(20, 'x'));
  EXPECT_EQ(lines[5], "last");
  EXPECT_EQ(Press({TopKey::kEscape}).kind, Kind::kRefresh);
  EXPECT_EQ(state.page, TopPage::kTasks);
  Press(Letter('l'));
  data.page.clear();
  for (int i = 1; i <= 100; ++i) data.page += "line " + std::to_string(i) + "\n";
  lines = Lines();
  EXPECT_EQ(lines[22], "line 100") << "output is shown from its end";
  Press({TopKey::kHome});
  EXPECT_EQ(Lines()[2], "line 1");
  Press(Letter('q'));
  EXPECT_EQ(Press(Letter('q')).kind, Kind::kQuit);
  state.page = TopPage::kHelp;
  EXPECT_THAT(Lines()[2], HasSubstr("choose a task"));
}

TEST_F(Top, WithoutTasksNothingIsSelected) {
  data.tasks.clear();
  EXPECT_THAT(Lines()[4], HasSubstr("no tasks"));
  for (const char letter : std::string("ceh"))
    EXPECT_EQ(Press(Letter(letter)).kind, Kind::kNothing);
  EXPECT_EQ(state.page, TopPage::kTasks);
  EXPECT_THAT(Lines()[23], Not(HasSubstr("End task")));
}

TEST(TopText, FindsTheLastLineOfAnOutput) {
  EXPECT_EQ(LastOutputLine("one\ntwo\n"), "two");
  EXPECT_EQ(LastOutputLine("epoch 1\r 10%\r 20%\r"), "20%");
  EXPECT_EQ(LastOutputLine("\x1b[1;31mred\x1b[0m \x1b[A"), "red");
  EXPECT_EQ(LastOutputLine("\x1b(B\x1b["), "?(B");
  EXPECT_EQ(LastOutputLine(""), "");
}

TEST(TopText, BarsStayInTheirWidth) {
  const auto text = [](std::int64_t used, std::int64_t promised, std::int64_t total) {
    return TextOf(MemoryBar(used, promised, total, 10));
  };
  EXPECT_EQ(text(0, 0, 100), "[          ]");
  EXPECT_EQ(text(50, 80, 100), "[|||||:::  ]");
  EXPECT_EQ(text(80, 50, 100), "[||||||||  ]");
  EXPECT_EQ(text(300, 400, 100), "[||||||||||]");
  EXPECT_EQ(text(1, 1, 0), "[          ]");
  EXPECT_EQ(ActivityBars({-1, 0, 1, 100, 400}, 7, true), "   ▁▁██");
  EXPECT_EQ(ActivityBars({10, 20, 100}, 2, true), "▂█");
}

}  // namespace
}  // namespace carma::cli
