#include "gpu/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Reading Announces(std::vector<int> xids) {
  Reading reading;
  reading.xids = std::move(xids);
  return reading;
}

Reading Tells(Condition condition) {
  Reading reading;
  reading.condition = condition;
  return reading;
}

TEST(Xids, AreClassifiedAsFaultsOfTasksOrDevices) {
  const struct {
    XidClass meaning;
    std::vector<int> xids;
  } cases[] = {
      {XidClass::kTask, {13, 31, 43, 45, 68, 109}},
      {XidClass::kContained, {94}},
      {XidClass::kNews, {63, 154}},
      {XidClass::kDevice, {46, 48, 62, 64, 74, 79, 92, 95, 119, 120, 140}},
      {XidClass::kDevice, {-1, 0, 1, 12, 14, 153, 155, 999, 1 << 30}},
  };
  for (const auto& c : cases) {
    for (const int xid : c.xids) {
      EXPECT_EQ(DescribeXid(xid).meaning, c.meaning) << xid;
      EXPECT_FALSE(DescribeXid(xid).text.empty()) << xid;
    }
  }
  EXPECT_EQ(DescribeXid(79).text, "fell off the bus");
}

TEST(Health, DrainsOnlyForDeviceXids) {
  const struct {
    const char* name;
    std::vector<int> xids, ignored;
    const char* why;
  } cases[] = {
      {"none", {}, {}, ""},
      {"a program's", {31, 43, 45}, {}, ""},
      {"news", {63, 154}, {}, ""},
      {"a device fault among program faults", {43, 79, 45}, {}, "Xid 79: fell off the bus"},
      {"contained", {94}, {}, "Xid 94: contained memory error"},
      {"the first of two", {79, 48}, {}, "Xid 79: fell off the bus"},
      {"the more serious of two", {94, 79, 95}, {}, "Xid 79: fell off the bus"},
      {"not in the table", {151}, {}, "Xid 151: unknown to this version"},
      {"ignored", {79}, {74, 79}, ""},
      {"another is ignored", {79, 48}, {79}, "Xid 48: uncorrectable memory error"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    Health health({.ignored_xids = c.ignored});
    EXPECT_EQ(health.Take(Announces(c.xids)), c.why);
    EXPECT_EQ(health.Take({}), c.why) << "it holds";
    health.Cleared();
    EXPECT_THAT(health.why(), IsEmpty());
  }
}

TEST(Health, ConditionsLastUntilTheyAreNoLongerReported) {
  const struct {
    const char* name;
    Condition ill, well;
    const char* why;
  } cases[] = {
      {"rows wait", {.remap_pending = true}, {.remap_pending = false}, "at the next reset"},
      {"no spare memory rows",
       {.remap_failed = true},
       {.remap_failed = false},
       "no spare memory rows"},
      {"a reset is wanted",
       {.recovery = RecoveryAction::kGpuReset},
       {.recovery = RecoveryAction::kNone},
       "a GPU reset"},
      {"a requested restart",
       {.recovery = RecoveryAction::kNodeReboot},
       {.recovery = RecoveryAction::kNone},
       "a machine reboot"},
      {"an unknown recovery action",
       {.recovery = RecoveryAction::kOther},
       {.recovery = RecoveryAction::kNone},
       "does not support"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    Health health({});
    EXPECT_THAT(health.Take(Tells(c.ill)), HasSubstr(c.why));
    EXPECT_THAT(health.Take({}), HasSubstr(c.why)) << "an absent value changes nothing";
    health.Cleared();
    EXPECT_THAT(health.why(), HasSubstr(c.why)) << "the driver has not reported otherwise";
    EXPECT_THAT(health.Take(Tells(c.well)), IsEmpty());
    EXPECT_THAT(health.Take(Tells(c.ill)), HasSubstr(c.why)) << "once more";
    health.Acknowledge();
    EXPECT_THAT(health.Take(Tells(c.ill)), IsEmpty()) << "acknowledged by a person";
    EXPECT_THAT(health.Take(Tells(c.well)), IsEmpty());
    EXPECT_THAT(health.Take(Tells(c.ill)), HasSubstr(c.why)) << "it came back";
  }
}

TEST(Health, CountsOnlyNewMemoryErrors) {
  Health health({});
  EXPECT_THAT(health.Take(Tells({.ecc_uncorrected = 5})), IsEmpty()) << "they predate the start";
  EXPECT_EQ(health.Take(Tells({.ecc_uncorrected = 7})), "new uncorrectable memory errors: 2");
  health.Acknowledge();
  EXPECT_THAT(health.Take(Tells({.ecc_uncorrected = 7})), IsEmpty());
  EXPECT_EQ(health.Take(Tells({.ecc_uncorrected = 8})), "new uncorrectable memory errors: 1");
  EXPECT_THAT(health.Take(Tells({.ecc_uncorrected = 0})), IsEmpty()) << "the driver was reloaded";
  EXPECT_EQ(health.Take(Tells({.ecc_uncorrected = 1})), "new uncorrectable memory errors: 1");
  EXPECT_THAT(Health({}).Take(Tells({.ecc_corrected = 1'000})), IsEmpty());
}

TEST(Health, ClearsAnXidAfterAVisibleReset) {
  Health reset({});
  reset.Take(Tells({.ecc_uncorrected = 0, .recovery = RecoveryAction::kGpuReset}));
  EXPECT_EQ(reset.Take(Announces({95})), "Xid 95: uncontained memory error");
  EXPECT_THAT(reset.Take(Tells({.recovery = RecoveryAction::kNone})), IsEmpty());
  Health reloaded({});
  reloaded.Take(Tells({.ecc_uncorrected = 3}));
  reloaded.Take(Announces({48}));
  EXPECT_THAT(reloaded.Take(Tells({.ecc_uncorrected = 3})), HasSubstr("Xid 48"));
  EXPECT_THAT(reloaded.Take(Tells({.ecc_uncorrected = 0})), IsEmpty());
}

TEST(Health, StaysResumedUntilNewEvidence) {
  Health health({});
  health.Take(Announces({79}));
  health.Acknowledge();
  EXPECT_THAT(health.Take({}), IsEmpty());
  EXPECT_THAT(health.Take(Announces({79})), HasSubstr("Xid 79"));
  health.Take(Tells({.recovery = RecoveryAction::kGpuReset}));
  health.Acknowledge();
  EXPECT_THAT(health.Take(Tells({.recovery = RecoveryAction::kGpuReset})), IsEmpty());
  EXPECT_THAT(health.Take(Tells({.recovery = RecoveryAction::kNodeReboot})),
              HasSubstr("machine reboot"))
      << "another wish";
}

TEST(Health, CanLeaveResumingToAdministrators) {
  Health health({.resume_when_cleared = false});
  health.Take(Announces({79}));
  health.Cleared();
  EXPECT_THAT(health.Take({}), HasSubstr("Xid 79"));
  health.Acknowledge();
  EXPECT_THAT(health.Take(Tells({.remap_pending = true})), HasSubstr("rows"));
  EXPECT_THAT(health.Take(Tells({.remap_pending = false})), HasSubstr("rows"));
  health.Acknowledge();
  EXPECT_THAT(health.Take(Tells({.remap_pending = false})), IsEmpty());
}

TEST(Health, KeepsVerdictsAcrossRestarts) {
  const struct {
    const char* name;
    std::string why;
    Reading still, gone;
  } cases[] = {
      {"an Xid", "Xid 79: fell off the bus", {}, {}},
      {"errors", "new uncorrectable memory errors: 2", Tells({.ecc_uncorrected = 2}),
       Tells({.ecc_uncorrected = 0})},
      {"rows", "memory rows will be remapped at the next reset", Tells({.remap_pending = true}),
       Tells({.remap_pending = false})},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    Health health({});
    health.Restore(c.why);
    EXPECT_EQ(health.why(), c.why);
    EXPECT_EQ(health.Take({}), c.why);
    EXPECT_EQ(health.Take(c.still), c.why);
    if (c.gone == Reading{}) {
      health.Cleared();
    } else {
      health.Take(c.gone);
    }
    EXPECT_THAT(health.why(), IsEmpty());
  }
}

}  // namespace
}  // namespace carma::gpu
