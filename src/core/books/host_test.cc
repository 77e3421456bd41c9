#include "core/books/host.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace carma::core {
namespace {

HostInfo Eight() {
  return {.cpus = 8, .memory_mib = 64'000, .cores = {0, 4, 1, 5, 2, 6, 3, 7}};
}

TEST(CheckHost, DistinguishesNeverFromNotNowWithTheNumbers) {
  const HostView half{.cpus = 8,
                      .free_cpus = 4,
                      .cores = 8,
                      .free_cores = 2,
                      .memory_mib = 64'000,
                      .free_memory_mib = 30'000};
  const HostView unknown{};
  struct Case {
    const char* name;
    HostNeed need;
    HostView host;
    Fit fit;
    ReasonCode code;
    const char* text;
  };
  const Case cases[] = {
      {"nothing", {}, half, Fit::kFits, ReasonCode::kNone, ""},
      {"just fits", {4, 30'000}, half, Fit::kFits, ReasonCode::kNone, ""},
      {"one core short", {5, 0}, half, Fit::kNotNow, ReasonCode::kCpus, "4 of 8"},
      {"more than the server has", {9, 0}, half, Fit::kNever, ReasonCode::kCpus, "at most 8"},
      {"others' own", {3, 0, true}, half, Fit::kNotNow, ReasonCode::kCpus, "2 are unassigned"},
      {"own ones", {2, 0, true}, half, Fit::kFits, ReasonCode::kNone, ""},
      {"memory short", {1, 31'000}, half, Fit::kNotNow, ReasonCode::kHostMemory, "29.3G of 62.5G"},
      {"no such memory", {1, 70'000}, half, Fit::kNever, ReasonCode::kHostMemory, "at most 62.5G"},
      {"not described", {900, 1'000'000}, unknown, Fit::kFits, ReasonCode::kNone, ""},
  };
  for (const Case& each : cases) {
    const Verdict verdict = CheckHost(each.need, each.host);
    EXPECT_EQ(verdict.fit, each.fit) << each.name;
    EXPECT_EQ(verdict.reason.code, each.code) << each.name;
    EXPECT_NE(verdict.reason.text->find(each.text), std::string::npos) << *verdict.reason.text;
    EXPECT_EQ(FitsHost(each.need, each.host), each.fit == Fit::kFits) << each.name;
  }
}

TEST(HostBooks, DedicateCoresNearTheGpuFirst) {
  HostBooks books;
  books.Open(Eight());
  const std::array near{2, 6};
  const HostShare first = books.ShareFor({.cpus = 3, .own_cpus = true}, near);
  EXPECT_EQ(first.cores, "0,2,6");
  books.Take(TaskId{1}, first);
  EXPECT_EQ(books.ShareFor({.cpus = 2, .own_cpus = true}, near).cores, "1,4");
  EXPECT_EQ(books.ShareFor({.cpus = 2}, near).cores, "");
  EXPECT_EQ(books.View().free_cores, 5);
}

TEST(HostBooks, CountPromisesUntilTheyAreReleased) {
  HostBooks books;
  books.Open(Eight());
  const std::uint64_t before = books.changes();
  books.Take(TaskId{1}, {.cpus = 3, .memory_mib = 10'000});
  books.Take(TaskId{1}, {.cpus = 3, .memory_mib = 10'000});
  books.Take(TaskId{2}, {});
  EXPECT_EQ(books.tasks(), 1U);
  EXPECT_EQ(books.View().free_cpus, 5);
  EXPECT_EQ(books.View().free_memory_mib, 54'000);
  EXPECT_EQ(books.changes(), before);
  const HostView kept = books.ViewWithout(TaskId{9}, {.cpus = 4, .memory_mib = 60'000});
  EXPECT_EQ(kept.free_cpus, 1);
  EXPECT_EQ(kept.free_memory_mib, 0);
  books.Open({.cpus = 2, .memory_mib = 1'000});
  EXPECT_EQ(books.View().free_cpus, 0);  // existing promises remain
  books.Release(TaskId{1});
  books.Release(TaskId{1});
  EXPECT_EQ(books.View().free_cpus, 2);
  EXPECT_GT(books.changes(), before);
}

TEST(HostBooks, ComputeTheShareOfTheMachine) {
  HostBooks books;
  EXPECT_EQ(books.PartOf(4, 10'000), 0);
  books.Open(Eight());
  EXPECT_EQ(books.PartOf(2, 0), 0.25);
  EXPECT_EQ(books.PartOf(2, 48'000), 0.75);
  EXPECT_EQ(books.PartOf(20, 0), 1);
}

TEST(HostShare, IsDescribedInWords) {
  EXPECT_EQ(TextOf(HostShare{}), "");
  EXPECT_EQ(TextOf(HostShare{.cpus = 1}), "1 CPU");
  EXPECT_EQ(TextOf(HostShare{.cpus = 4, .memory_mib = 8'192, .cores = "0-3"}),
            "4 dedicated CPUs (0-3) and 8.0G of memory");
}

}  // namespace
}  // namespace carma::core
