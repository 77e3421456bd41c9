#include "core/forecast/expected_start.h"

#include <gtest/gtest.h>

#include <random>

namespace carma::core {
namespace {

constexpr Duration kMinute{60'000};

Time At(int minutes) {
  return Time{} + minutes * kMinute;
}

ExpectedTask Task(std::size_t gpus, std::optional<int> minutes, std::vector<bool> may) {
  ExpectedTask task{.gpus = gpus, .may = std::move(may)};
  if (minutes) task.takes = *minutes * kMinute;
  task.runs_into = task.takes.value_or(240 * kMinute);
  return task;
}

std::vector<int> InMinutes(const std::vector<std::optional<Time>>& starts) {
  std::vector<int> minutes;
  for (const auto& each : starts)
    minutes.push_back(each ? static_cast<int>((*each - Time{}) / kMinute) : -1);
  return minutes;
}

TEST(ExpectedStart, EachTaskTakesTheGpuThatBecomesFreeFirst) {
  const std::vector<ExpectedGpu> gpus{{.free_at = At(10)}, {.free_at = At(30)}};
  const std::vector<bool> any{true, true};
  const std::vector<ExpectedTask> line{Task(1, 5, any), Task(1, 60, any), Task(2, 10, any),
                                       Task(1, 5, any)};
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, line, Pass::kInOrder)),
            (std::vector{10, 15, 75, 85}));
}

TEST(ExpectedStart, IsUnknownBehindATaskWithoutLimit) {
  const std::vector<ExpectedGpu> gpus{{.free_at = At(10)}, {}};
  const std::vector<bool> any{true, true};
  const std::vector<ExpectedTask> line{Task(1, {}, any), Task(1, 5, any)};
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, line, Pass::kInOrder)), (std::vector{10, -1}));
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, line, Pass::kFreely)), (std::vector{15, -1}));
}

TEST(ExpectedStart, TasksThatMayUseSomeGpusWaitForEarlierTasksOnThem) {
  const std::vector<ExpectedGpu> gpus{{.free_at = At(10)}, {.free_at = At(20)}};
  const std::vector<ExpectedTask> line{Task(1, 100, {true, true}), Task(1, 5, {false, true}),
                                       Task(1, 5, {true, false})};
  // The first task might run on either GPU, so each of the other tasks may have to wait for it.
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, line, Pass::kInOrder)),
            (std::vector{10, 110, 110}));
}

TEST(ExpectedStart, AReturningTaskMayTakeAnyOfItsPossibleGpus) {
  const std::vector<ExpectedGpu> gpus{{}, {.free_at = At(10)}};
  const std::vector<bool> any{true, true};
  const std::vector<ExpectedTask> picky{Task(1, 5, {false, true})}, not_picky{Task(1, 5, any)};
  const std::vector<ExpectedReturn> returning{{.may = any, .holds = {true, false}}};
  const auto starts = [&](const std::vector<ExpectedTask>& line, Pass pass) {
    return InMinutes(LatestStarts(At(0), gpus, line, pass, returning));
  };
  EXPECT_EQ(starts(picky, Pass::kInOrder), (std::vector{-1}));
  EXPECT_EQ(starts(picky, Pass::kFreely), (std::vector{-1}));
  EXPECT_EQ(starts(not_picky, Pass::kInOrder), (std::vector{10})) << "one of the two becomes free";
}

TEST(ExpectedStart, AvoidsReservedGpusOrWaitsForTheirReservationsToEnd) {
  const ReservedPeriod period{.booking = {.id = ReservationId{1}}, .from = At(60), .to = At(90)};
  const std::vector<const ReservedPeriod*> booked{&period};
  const std::vector<ExpectedGpu> gpus{{.free_at = At(0), .booked = booked}, {.free_at = At(50)}};
  const std::vector<bool> any{true, true};
  ExpectedTask two = Task(2, 20, any);
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, std::vector{Task(1, 70, any)}, Pass::kInOrder)),
            (std::vector{50}));
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, std::vector{two}, Pass::kInOrder)),
            (std::vector{90}));
  two.own_reservations = {ReservationId{1}};
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, std::vector{two}, Pass::kInOrder)),
            (std::vector{50}));
}

TEST(ExpectedStart, CountsAllWorkIfAnyTaskMayGoFirst) {
  const std::vector<ExpectedGpu> gpus{{.free_at = At(10)}, {.free_at = At(30)}};
  const std::vector<bool> any{true, true};
  const std::vector<ExpectedTask> line{Task(1, 10, any), Task(1, 30, any), Task(2, 10, any)};
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, line, Pass::kFreely)),
            (std::vector{(40 + 30 + 20) / 2, (40 + 10 + 20) / 2, 40 + 40}));
}

TEST(ExpectedStart, TheWidestTaskCountsIfTheHeadBlocksOthers) {
  const std::vector<ExpectedGpu> gpus{{.free_at = At(10)}, {.free_at = At(30)}};
  const std::vector<bool> any{true, true};
  const std::vector<ExpectedTask> line{Task(1, 10, any), Task(1, 30, any), Task(2, 10, any)};
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, line, Pass::kAnyOrder)), (std::vector{90, 70, 80}));
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, std::span(line).first(2), Pass::kAnyOrder)),
            (std::vector{35, 25}));
  EXPECT_EQ(InMinutes(LatestStarts(At(0), gpus, std::span(line).first(2), Pass::kOneAtATime)),
            (std::vector{70, 50}));
}

// No task starts later than predicted, even if tasks are shorter than their limits or run on other
// GPUs.
TEST(ExpectedStart, NoTaskStartsLaterIfTasksEndEarlier) {
  std::mt19937 random(7);
  const auto upto = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  for (int round = 0; round < 2000; ++round) {
    const auto count = static_cast<std::size_t>(2 + upto(4));
    std::vector<ExpectedGpu> gpus;
    std::vector<int> free(count);
    for (std::size_t i = 0; i < count; ++i) {
      const int limit = upto(60);
      gpus.push_back({.free_at = At(limit)});
      free[i] = limit == 0 ? 0 : upto(limit + 1);
    }
    std::vector<ExpectedTask> line;
    for (int i = 0; i < 12; ++i) {
      std::vector<bool> may(count, upto(3) > 0);
      if (!may[0]) {
        for (std::size_t gpu = 0; gpu < count; ++gpu) may[gpu] = upto(2) == 0;
        may[static_cast<std::size_t>(upto(static_cast<int>(count)))] = true;
      }
      const auto width = static_cast<int>(std::ranges::count(may, true));
      line.push_back(
          Task(static_cast<std::size_t>(1 + upto(std::min(width, 3))), 1 + upto(90), may));
    }
    const auto told = InMinutes(LatestStarts(At(0), gpus, line, Pass::kInOrder));
    int before = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      // The task takes any of its usable GPUs as soon as enough of them are free.
      std::vector<std::size_t> own;
      for (std::size_t gpu = 0; gpu < count; ++gpu) {
        if (line[i].may[gpu]) own.push_back(gpu);
      }
      std::vector<int> times;
      for (const std::size_t gpu : own) times.push_back(free[gpu]);
      std::ranges::sort(times);
      const int start = std::max(before, times[line[i].gpus - 1]);
      EXPECT_LE(start, told[i]) << "round " << round << ", task " << i;
      std::shuffle(own.begin(), own.end(), random);
      const int takes = 1 + upto(static_cast<int>(*line[i].takes / kMinute));
      std::size_t left = line[i].gpus;
      for (const std::size_t gpu : own) {
        if (left == 0 || free[gpu] > start) continue;
        free[gpu] = start + takes;
        --left;
      }
      before = start;
    }
  }
}

}  // namespace
}  // namespace carma::core
