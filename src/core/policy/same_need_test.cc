#include "core/policy/same_need.h"

#include <gtest/gtest.h>

#include <set>

namespace carma::core {
namespace {

// Needs with equal hashes are compared one by one. If the hash ignored the user, a pass over the
// tasks of a thousand users would take a million comparisons.
TEST(HashOf, DistinguishesUsersUnderMps) {
  std::set<std::size_t> hashes;
  Need need;
  for (need.load.load.user = 1; need.load.load.user <= 100; ++need.load.load.user)
    hashes.insert(HashOf(need));
  EXPECT_EQ(hashes.size(), 100U);
}

}  // namespace
}  // namespace carma::core
