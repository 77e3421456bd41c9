#include "core/books/activity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace carma::core {
namespace {

constexpr Time kSeen{Duration{100'000}};
constexpr Time kLater{Duration{400'000}};

Resident ResidentTask(std::uint64_t id, std::optional<double> sm_active = {}) {
  return {.task = TaskId{id}, .first_seen = kSeen, .sm_active = sm_active};
}
GpuSample Sample(double sm_active) {
  return {.taken = kLater, .window_from = kLater - Duration{60'000}, .sm_active = sm_active};
}
std::optional<SeenActivity> Seen(const GpuSample& sample, const std::vector<Resident>& residents,
                                 SharingMethod sharing = SharingMethod::kMps) {
  return ActivityOf(sample, residents, kSeen, sharing);
}
double UnderMps(const std::vector<double>& activities) {
  double quiet = 1;
  for (const double u : activities) quiet *= 1 - u;
  return 1 - std::pow(quiet, Interference{}.smact_exponent);
}

TEST(ActivityOf, IsTheActivityOfTheOnlyTask) {
  EXPECT_DOUBLE_EQ(Seen(Sample(0.42), {ResidentTask(1)}, SharingMethod::kStreams)->sm_active, 0.42);
  EXPECT_DOUBLE_EQ(Seen(Sample(0.42), {ResidentTask(1)})->sm_active, 0.42);
  // The activity is derived again even if it is known, because it may change.
  EXPECT_DOUBLE_EQ(Seen(Sample(0.42), {ResidentTask(1, 0.9)})->sm_active, 0.42);
  Resident exclusive = ResidentTask(1);
  exclusive.exclusive = true;  // not an MPS client
  EXPECT_DOUBLE_EQ(Seen(Sample(0.42), {exclusive})->sm_active, 0.42);
}

TEST(ActivityOf, IsDerivedForOneUnknownTaskAmongKnownTasks) {
  const auto seen = Seen(Sample(UnderMps({0.3, 0.5, 0.2})),
                         {ResidentTask(1, 0.3), ResidentTask(2), ResidentTask(3, 0.2)});
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->resident, 1u);
  EXPECT_DOUBLE_EQ(seen->sm_active, 0.5);
  EXPECT_FALSE(Seen(Sample(0.9), {ResidentTask(1, 0.3), ResidentTask(2)}, SharingMethod::kStreams));
}

TEST(ActivityOf, IsEmptyIfTheSampleDoesNotShowIt) {
  EXPECT_FALSE(Seen(Sample(0.5), {}));
  EXPECT_FALSE(Seen(Sample(0.5), {ResidentTask(1), ResidentTask(2)}));
  EXPECT_FALSE(Seen(Sample(0.5), {ResidentTask(1, 0.5), ResidentTask(2, 0.5)}));
  // The first task is so active that the second task's activity cannot be derived.
  EXPECT_FALSE(Seen(Sample(0.9), {ResidentTask(1, 0.8), ResidentTask(2)}));
  GpuSample sample = Sample(0.5);
  sample.sm_active.reset();
  EXPECT_FALSE(Seen(sample, {ResidentTask(1)}));
  sample = Sample(0.5);
  sample.foreign_processes = 1;
  EXPECT_FALSE(Seen(sample, {ResidentTask(1)}));
  sample = Sample(0.5);
  sample.window_from = kSeen + kActivityWarmUp - Duration{1};
  EXPECT_FALSE(Seen(sample, {ResidentTask(1)}));
  Resident unseen = ResidentTask(1);
  unseen.first_seen.reset();
  EXPECT_FALSE(Seen(Sample(0.5), {unseen}));
  EXPECT_FALSE(
      ActivityOf(Sample(0.5), std::vector<Resident>{ResidentTask(1)}, kLater, SharingMethod::kMps));
}

TEST(ActivityOf, StaysBetweenAHundredthAndOne) {
  EXPECT_DOUBLE_EQ(Seen(Sample(0), {ResidentTask(1)})->sm_active, 0.01);
  EXPECT_DOUBLE_EQ(Seen(Sample(1.04), {ResidentTask(1)})->sm_active, 1);
  EXPECT_DOUBLE_EQ(Seen(Sample(0.2), {ResidentTask(1, 0.5), ResidentTask(2)})->sm_active, 0.01);
}

}  // namespace
}  // namespace carma::core
