#include "daemon/over_promise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PromiseUse Use(std::uint64_t id, int attempt, std::int64_t over_mib) {
  return {core::TaskId{id}, attempt, over_mib};
}

TEST(OverPromise, IsToldOnceInAnAttempt) {
  OverPromise promises;
  EXPECT_THAT(promises.Take({Use(1, 1, 0), Use(2, 1, 500)}), ElementsAre(Use(2, 1, 500)));
  EXPECT_THAT(promises.Take({Use(1, 1, 0), Use(2, 1, 900)}), IsEmpty());
  EXPECT_THAT(promises.Take({Use(1, 1, 0), Use(2, 1, 0)}), IsEmpty());
  EXPECT_THAT(promises.Take({Use(1, 1, 7), Use(2, 1, 100)}), ElementsAre(Use(1, 1, 7)));
  EXPECT_THAT(promises.Take({Use(1, 1, 7), Use(2, 2, 100)}), ElementsAre(Use(2, 2, 100)));
  EXPECT_THAT(promises.Take({}), IsEmpty());
  EXPECT_THAT(promises.Take({Use(1, 1, 7)}), ElementsAre(Use(1, 1, 7))) << "it had left";
}

}  // namespace
}  // namespace carma::daemon
