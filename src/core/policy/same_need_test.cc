#include "core/policy/same_need.h"

#include <gtest/gtest.h>

#include <set>

namespace carma::core {
namespace {

// Needs with the same hash are compared one by one: if all had the same, a thousand waiting users
// would cost a pass a million comparisons.
TEST(HashOf, DistinguishesUsersUnderMps) {
  std::set<std::size_t> hashes;
  Need need;
  for (need.load.load.user = 1; need.load.load.user <= 100; ++need.load.load.user)
    hashes.insert(HashOf(need));
  EXPECT_EQ(hashes.size(), 100U);
}

}  // namespace
}  // namespace carma::core
