// Tests that progress printed by tasks appears everywhere the server reports it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ProgressTest : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }
  // Submits a task that runs this command and then waits until it is cancelled.
  std::uint64_t Print(const std::string& command, std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"--", "/bin/sh", "-c", command + "; exec sleep 600"});
    return site.Submit(std::move(options));
  }
  // Waits until the task has completed this many steps; returns false on timeout.
  bool Reaches(std::uint64_t id, double done) {
    return Eventually([&] {
      const api::TaskView task = site.Task(id);
      return task.progress && task.progress->done == done;
    });
  }

  Site site{{.time_scale = 1}};
};

constexpr char kBar[] =
    R"(printf 'loading\r\033[31m 25%%|##   | 50/200 [00:10<00:30,  5.00it/s, loss=0.5]' >&2)";

TEST_F(ProgressTest, IsShownEverywhere) {
  const std::uint64_t id = Print(kBar, {"--memory", "1G"});
  ASSERT_TRUE(Reaches(id, 50));
  const task::ProgressReport progress = *site.Task(id).progress;
  EXPECT_EQ(progress.total, 200);
  EXPECT_EQ(progress.fraction, 0.25);
  EXPECT_EQ(progress.loss, 0.5);
  EXPECT_EQ(progress.phase, "train");
  EXPECT_FALSE(progress.stalled);
  EXPECT_THAT(site.Carma({"list"}).out, HasSubstr("PROGRESS"));
  EXPECT_THAT(site.Carma({"list"}).out, HasSubstr("25% 0:"));
  EXPECT_THAT(site.Carma({"show", std::to_string(id)}).out,
              HasSubstr("training, step 50 of 200, 5 per second, loss 0.5"));
  EXPECT_THAT(site.client().Get("/metrics/tasks").value_or(""),
              HasSubstr("carma_task_progress_ratio{"));
  EXPECT_THAT(site.client().Get("/v1/overview").value_or(""), HasSubstr(R"("fraction":0.25)"));
}

TEST_F(ProgressTest, OutlivesAKilledDaemonAndCountsOnAfterARequeue) {
  const std::uint64_t id = Print("echo step ${CARMA_ATTEMPT}00/1000");
  ASSERT_TRUE(Reaches(id, 100));
  site.Restart(SIGKILL);
  EXPECT_TRUE(Reaches(id, 100));
  EXPECT_EQ(site.Carma({"requeue", std::to_string(id)}).code, 0);
  EXPECT_TRUE(Reaches(id, 200)) << "the second start continues where the first one stopped";
}

TEST_F(ProgressTest, IsReportedByThePythonModulesLine) {
  const std::uint64_t id = Print("echo 'carma: progress 7/10 loss 0.25' >&2");
  ASSERT_TRUE(Reaches(id, 7));
  EXPECT_EQ(site.Task(id).progress->fraction, 0.7);
}

TEST_F(ProgressTest, IsNotReadIfTheUserOptsOut) {
  const std::uint64_t hidden = Print("echo step 100/1000", {"--progress", "none"});
  const std::uint64_t shown = Print("echo step 100/1000");
  ASSERT_TRUE(Reaches(shown, 100));
  EXPECT_FALSE(site.Task(hidden).progress);
}

TEST_F(ProgressTest, AnEpochHasOnlyThePercentageOfTheRun) {
  const std::string file = site.folder() / "train.log";
  WriteText(file, "epoch 3/10\n");
  EXPECT_EQ(site.Carma({"progress", file}).out, "training, epoch 3 of 10\nwhole run: 20.0 %\n");
}

TEST_F(ProgressTest, ShowsNothingOfAHostileOutput) {
  // Print the text from a file rather than from the command line, which CARMA shows exactly as the
  // user typed it.
  const std::string file = site.folder() / "hostile";
  WriteText(file, "\n\033[2J\033]0;<b>\aEpoch 1/2 <b>:  60%|##| 60/100 [00:10<00:10, 5.00<b>/s]");
  const std::uint64_t id =
      Print("yes \"$(cat " + file + ")\" | tr -d '\\n' | head -c 100000000; cat " + file);
  ASSERT_TRUE(Reaches(id, 60));
  EXPECT_EQ(site.Task(id).progress->unit, "step");
  for (const std::string& text :
       {site.Carma({"list"}).out, site.Carma({"show", std::to_string(id)}).out,
        site.Carma({"progress", file}).out, site.Carma({"progress", file, "--json"}).out,
        site.client().Get("/metrics/tasks").value_or("<b>"),
        site.client().Get("/v1/overview").value_or("<b>")}) {
    EXPECT_THAT(text, Not(HasSubstr("<b>")));
    EXPECT_THAT(text, Not(HasSubstr("\033]")));
    EXPECT_FALSE(text.empty());
  }
}

// A small training loop that resumes from its checkpoint and evaluates after each epoch.
constexpr char kLoop[] = R"py(
import os, sys, time
import torch
from tqdm import tqdm

state, epochs, steps, pause_s = sys.argv[1], 4, 50, 0.1
state += os.environ.get("CARMA_ARRAY_INDEX", "")
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
first = 0
if os.path.exists(state):
    saved = torch.load(state)
    model.load_state_dict(saved["model"])
    first = saved["step"]
for epoch in range(first // steps, epochs):
    begin = first - epoch * steps if epoch == first // steps else 0
    bar = tqdm(range(begin, steps), initial=begin, total=steps, desc=f"Epoch {epoch + 1}/{epochs}", mininterval=0)
    for step in bar:
        loss = model(torch.ones(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bar.set_postfix(loss=loss.item())
        time.sleep(pause_s)
        torch.save({"model": model.state_dict(), "step": epoch * steps + step + 1}, state + ".new")
        os.replace(state + ".new", state)
    for _ in tqdm(range(5), desc="Validation"):
        time.sleep(pause_s)
)py";

class RealLoopTest : public ProgressTest {
 protected:
  void SetUp() override {
    if (RunProgram({"/usr/bin/python3", "-c", "import torch, tqdm"}).code != 0)
      GTEST_SKIP() << "needs Debian's packages python3-torch, python3-tqdm";
    ProgressTest::SetUp();
    WriteText(site.folder() / "loop.py", kLoop);
  }
  std::uint64_t Loop(std::vector<std::string> options) const {
    options.insert(options.end(), {"--memory", "1G", "--", "/usr/bin/python3",
                                   site.folder() / "loop.py", site.folder() / "weights"});
    return site.Submit(std::move(options));
  }
  // Waits until at least this share of the run is done and returns the progress.
  std::optional<task::ProgressReport> From(std::uint64_t id, double share, int attempt = 1) {
    std::optional<task::ProgressReport> seen;
    Eventually([&] {
      const api::TaskView task = site.Task(id);
      seen = task.progress;
      return task.attempt == attempt && seen && seen->fraction.value_or(0) >= share;
    });
    return seen;
  }
};

TEST_F(RealLoopTest, IsFollowedThroughACrashAndCountsOnFromItsCheckpoint) {
  const std::uint64_t id = Loop({});
  const auto begun = From(id, 0.1);
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->total, 50);
  EXPECT_TRUE(begun->loss);
  site.Restart(SIGKILL);
  const auto later = From(id, 0.3);
  ASSERT_TRUE(later) << "the shim kept reading while carmad was gone";
  ASSERT_TRUE(later->ends_ms);
  EXPECT_EQ(site.Carma({"requeue", std::to_string(id)}).code, 0);
  const auto again = From(id, 0.01, 2);
  ASSERT_TRUE(again);
  EXPECT_GE(again->fraction.value_or(0), *later->fraction) << "not from zero";
  const auto last = From(id, 0.8, 2);
  ASSERT_TRUE(last && last->ends_ms);
  const api::TaskView ended = site.Await(id);
  EXPECT_EQ(ended.state, "succeeded");
  const double off_s = std::abs(static_cast<double>(*last->ends_ms - *ended.ended_ms)) / 1000;
  EXPECT_LT(off_s, 15) << "a fifth of some 22 s was left, and the machine may be busy";
}

TEST_F(RealLoopTest, IsFollowedInEachTaskOfAnArray) {
  const std::uint64_t first = Loop({"--array", "1-2"});
  for (const std::uint64_t id : {first, first + 1}) {
    const auto progress = From(id, 0.1);
    ASSERT_TRUE(progress);
    EXPECT_EQ(progress->unit, "step");
    EXPECT_EQ(progress->total, 50);
  }
}

}  // namespace
}  // namespace carma::system_test
