#include "lab/sim/timer_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "base/rng.h"

namespace carma::sim {
namespace {

using base::FromMs;

TEST(TimerQueue, ByTimeThenRankThenSequence) {
  TimerQueue queue;
  queue.Set(3, FromMs(10));
  queue.Set(1, FromMs(10));
  queue.Set(2, FromMs(10), TimerQueue::Rank::kObserve);
  queue.Set(0, FromMs(5));
  std::vector<TimerId> order;
  while (!queue.empty()) order.push_back(queue.Pop().timer);
  EXPECT_EQ(order, (std::vector<TimerId>{0, 2, 3, 1}));
}

TEST(TimerQueue, ATimerHasOneEvent) {
  TimerQueue queue;
  queue.Set(7, FromMs(10));
  queue.Set(7, FromMs(30));
  queue.Set(8, FromMs(20));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.Pop().timer, 8u);
  queue.Clear(7);
  queue.Clear(7);
  queue.Clear(99);
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.IsSet(7));
}

// Compares the queue with a plain sorted map for every kind of operation.
TEST(TimerQueue, AgreesWithASortedMap) {
  base::Rng rng(3);
  TimerQueue queue;
  std::map<TimerId, std::pair<base::Time, std::uint64_t>> plain;
  std::uint64_t sequence = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto timer = static_cast<TimerId>(rng.Below(200));
    const std::uint64_t what = rng.Below(4);
    if (what < 2) {
      const base::Time when = FromMs(static_cast<std::int64_t>(rng.Below(50)));
      queue.Set(timer, when);
      plain[timer] = {when, ++sequence};
    } else if (what == 2) {
      queue.Clear(timer);
      plain.erase(timer);
    } else if (!plain.empty()) {
      auto first = plain.begin();
      for (auto each = plain.begin(); each != plain.end(); ++each) {
        if (each->second < first->second) first = each;
      }
      const TimerQueue::Event event = queue.Pop();
      ASSERT_EQ(event.timer, first->first);
      ASSERT_EQ(event.when, first->second.first);
      plain.erase(first);
    }
    ASSERT_EQ(queue.size(), plain.size());
  }
}

}  // namespace
}  // namespace carma::sim
