#include "lab/sim/work.h"

#include <gtest/gtest.h>

#include <limits>

namespace carma::sim {
namespace {

using base::Duration;
using base::FromMs;

constexpr double kNever = std::numeric_limits<double>::infinity();

Work Computing(double solo_s) {
  Work work(solo_s);
  work.Launch(kNever);
  work.Begin(FromMs(0));
  return work;
}

TEST(Work, EndsAccordingToItsPace) {
  Work work = Computing(100);
  EXPECT_FALSE(work.EndsAt(FromMs(0)));
  work.SetPace(FromMs(0), 0.5);
  EXPECT_EQ(work.EndsAt(FromMs(0)), FromMs(200'000));
  work.SetPace(FromMs(100'000), 1);
  EXPECT_EQ(work.EndsAt(FromMs(100'000)), FromMs(150'000));
  EXPECT_DOUBLE_EQ(work.LeftS(FromMs(120'000)), 30);
}

TEST(Work, TheNextAttemptRepeatsUnsavedWork) {
  Work work = Computing(100);
  work.SetPace(FromMs(0), 1);
  EXPECT_TRUE(work.Save(FromMs(40'000), Duration{2'000}));
  EXPECT_EQ(work.EndsAt(FromMs(40'000)), FromMs(102'000));  // the pause comes first
  EXPECT_FALSE(work.Save(FromMs(41'000), Duration{0})) << "no work is done in the pause";
  work.Stop(FromMs(52'000), Duration{5'000}, true);
  // The lost time is 2 s for the checkpoint, 10 s of work after it, and 5 s for the next start.
  EXPECT_DOUBLE_EQ(*work.lost_s(), 17);
  EXPECT_TRUE(work.HasSaved());
  work.Launch(kNever);
  EXPECT_DOUBLE_EQ(work.attempt_s(), 60);
  EXPECT_FALSE(work.HasSaved());
}

TEST(Work, FailsByItself) {
  Work work(100);
  work.Launch(30);
  EXPECT_TRUE(work.Fails());
  work.Begin(FromMs(0));
  work.SetPace(FromMs(0), 1);
  EXPECT_EQ(work.EndsAt(FromMs(0)), FromMs(30'000));
  work.Launch(kNever);
  EXPECT_FALSE(work.Fails());
  EXPECT_DOUBLE_EQ(work.attempt_s(), 100);
}

}  // namespace
}  // namespace carma::sim
