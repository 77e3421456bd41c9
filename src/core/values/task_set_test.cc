#include "core/values/task_set.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace carma::core {
namespace {

TEST(TaskSet, BehavesLikeStdSet) {
  base::Rng rng(1);
  TaskSet tasks;
  std::set<std::uint64_t> expected;
  for (int step = 0; step < 20'000; ++step) {
    // Only a few distinct ids are used, so that many collide and some wrap around the end of the
    // block.
    const std::uint64_t id = rng.Below(40) * (rng.Below(2) == 0 ? 1 : 64);
    if (rng.Below(2) == 0) {
      tasks.Insert(TaskId{id});
      expected.insert(id);
    } else {
      tasks.Erase(TaskId{id});
      expected.erase(id);
    }
    ASSERT_EQ(tasks.size(), expected.size());
    for (std::uint64_t each = 0; each < 40; ++each) {
      ASSERT_EQ(tasks.Contains(TaskId{each}), expected.contains(each)) << step;
      ASSERT_EQ(tasks.Contains(TaskId{each * 64}), expected.contains(each * 64)) << step;
    }
  }
  tasks.Clear();
  EXPECT_FALSE(tasks.Contains(TaskId{1}));
  tasks.Insert(TaskId{1});
  EXPECT_TRUE(tasks.Contains(TaskId{1}));
}

}  // namespace
}  // namespace carma::core
