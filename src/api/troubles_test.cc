#include "api/troubles.h"

#include <gtest/gtest.h>

namespace carma::api {
namespace {

TEST(Troubles, BeginWithTheirSource) {
  EXPECT_EQ(TroubleOfDriver("it hangs"), "driver: it hangs");
  EXPECT_EQ(TroubleOfStore("disk full"), "store: disk full");
  EXPECT_EQ(TroubleOfConfiguration("f:1: no such key"),
            "configuration: the new version was rejected; the previous one stays in force: f:1: no "
            "such key");
  EXPECT_EQ(TroubleOfConfiguration("configuration: f: No such file"),
            "configuration: the new version was rejected; the previous one stays in force: f: No "
            "such file");
  EXPECT_EQ(UnknownGroup("no group 'x'"),
            "configuration: daemon.allow_groups: no group 'x'; correct it and reload carmad");
  EXPECT_EQ(TroubleOfEstimates("half are wrong"), "estimates: half are wrong");
  EXPECT_EQ(TroubleOfGpu(3, "it is lost"), "GPU 3: it is lost");
  EXPECT_EQ(ClosedByRule(3, "Xid 79"), "GPU 3 accepts no new tasks: Xid 79");
}

}  // namespace
}  // namespace carma::api
