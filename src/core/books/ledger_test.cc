#include "core/books/ledger.h"

#include <gtest/gtest.h>

namespace carma::core {
namespace {

constexpr GpuIndex kGpu{0};
constexpr TaskId kFirst{1};
constexpr TaskId kSecond{2};

GpuSample SampleOf(std::int64_t used_mib, std::vector<std::pair<TaskId, std::int64_t>> tasks_mib,
                   std::int64_t at_ms = 1'000) {
  GpuSample sample;
  sample.taken = base::FromMs(at_ms);
  sample.used_mib = used_mib;
  sample.tasks_mib = std::move(tasks_mib);
  return sample;
}

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { ledger_.Open({40'000, 20'000}); }
  void Claim(TaskId task, std::int64_t claim_mib, GpuIndex gpu = kGpu) {
    ledger_.Claim(gpu, {.task = task, .claim_mib = claim_mib});
  }
  std::int64_t Free(GpuIndex gpu = kGpu) { return ledger_.AccountOf(gpu).free_mib; }
  Ledger ledger_;
};

TEST_F(LedgerTest, AClaimCountsBeforeTheTaskAppearsInSamples) {
  Claim(kFirst, 12'000);
  EXPECT_EQ(Free(), 28'000);
  EXPECT_EQ(ledger_.AccountOf(kGpu).claimed_mib, 12'000);
  EXPECT_EQ(Free(GpuIndex{1}), 20'000);
}

TEST_F(LedgerTest, TheLargerOfClaimAndObservedMemoryCounts) {
  Claim(kFirst, 12'000);
  Claim(kSecond, 5'000);
  ledger_.Observe(kGpu, SampleOf(15'000, {{kFirst, 8'000}, {kSecond, 7'000}}));
  EXPECT_EQ(Free(), 40'000 - 12'000 - 7'000);
  EXPECT_EQ(ledger_.AccountOf(kGpu).foreign_mib, 0);
}

TEST_F(LedgerTest, MemoryOfNoTaskIsForeign) {
  Claim(kFirst, 10'000);
  ledger_.Observe(kGpu, SampleOf(9'000, {{kFirst, 4'000}, {TaskId{99}, 3'000}}));
  EXPECT_EQ(ledger_.AccountOf(kGpu).foreign_mib, 5'000);
  EXPECT_EQ(Free(), 25'000);
}

TEST_F(LedgerTest, ThereIsNoForeignMemoryIfLessIsUsedThanAttributed) {
  Claim(kFirst, 10'000);
  ledger_.Observe(kGpu, SampleOf(9'000, {{kFirst, 9'500}}));
  EXPECT_EQ(ledger_.AccountOf(kGpu).foreign_mib, 0);
}

TEST_F(LedgerTest, FreeMemoryIsNeverBelowZero) {
  Claim(kFirst, 30'000);
  Claim(kSecond, 30'000);
  EXPECT_EQ(Free(), 0);
}

TEST_F(LedgerTest, UnattributedMemoryCountsInTotal) {
  Claim(kFirst, 10'000);
  GpuSample sample = SampleOf(25'000, {});
  sample.attributed = false;
  sample.foreign_processes = 1;
  ledger_.Observe(kGpu, sample);
  EXPECT_EQ(Free(), 15'000);
  sample.used_mib = 4'000;
  ledger_.Observe(kGpu, sample);
  EXPECT_EQ(Free(), 30'000);
}

TEST_F(LedgerTest, LastKnownForeignMemoryCountsWhileMemoryIsUnattributed) {
  Claim(kFirst, 10'000);
  GpuSample sample = SampleOf(11'000, {{kFirst, 5'000}});
  sample.foreign_processes = 1;
  ledger_.Observe(kGpu, sample);
  sample.attributed = false;
  sample.tasks_mib.clear();
  ledger_.Observe(kGpu, sample);
  EXPECT_EQ(Free(), 40'000 - 10'000 - 6'000);
  sample.foreign_processes = 0;
  ledger_.Observe(kGpu, sample);
  EXPECT_EQ(Free(), 40'000 - 11'000);
}

TEST_F(LedgerTest, ReleaseForgetsSamplesAndMayBeRepeated) {
  Claim(kFirst, 12'000);
  Claim(kFirst, 12'000, GpuIndex{1});
  ledger_.Observe(kGpu, SampleOf(14'000, {{kFirst, 14'000}}));
  ledger_.Release(kFirst);
  EXPECT_EQ(Free(), 40'000);
  EXPECT_EQ(ledger_.SeenFreeMib(kGpu), 40'000);
  EXPECT_EQ(Free(GpuIndex{1}), 20'000);
  ledger_.Release(kFirst);
  EXPECT_EQ(Free(), 40'000);
  EXPECT_TRUE(ledger_.GpusOf(kFirst).empty());
}

TEST_F(LedgerTest, StableMemoryReplacesTheClaim) {
  const Time seen = base::FromMs(1'000);
  Claim(kFirst, 30'000);
  EXPECT_TRUE(ledger_.Observe(kGpu, SampleOf(10'000, {{kFirst, 10'000}})));
  EXPECT_FALSE(ledger_.Observe(kGpu, SampleOf(10'000, {{kFirst, 10'000}}, 2'000)));
  EXPECT_EQ(ledger_.AccountOf(kGpu).promised_mib, 30'000);
  EXPECT_EQ(ledger_.AccountOf(kGpu, seen - Duration{1}).promised_mib, 30'000);
  const Account account = ledger_.AccountOf(kGpu, seen);
  EXPECT_EQ(account.promised_mib, 10'600);
  EXPECT_EQ(account.claimed_mib, 30'000);
  EXPECT_EQ(account.free_mib, 40'000 - 10'600);
}

TEST_F(LedgerTest, APlateauNeverRaisesThePromise) {
  const Time seen = base::FromMs(1'000);
  Claim(kFirst, 10'100);
  Claim(kSecond, 0);
  ledger_.Observe(kGpu, SampleOf(15'000, {{kFirst, 10'000}, {kSecond, 5'000}}));
  EXPECT_EQ(ledger_.AccountOf(kGpu, seen).promised_mib, 10'100 + 5'000);
}

TEST_F(LedgerTest, UnattributedMemoryIsNoPlateau) {
  Claim(kFirst, 30'000);
  ledger_.Observe(kGpu, SampleOf(10'000, {{kFirst, 10'000}}));
  GpuSample unclear = SampleOf(20'000, {{kFirst, 10'000}}, 5'000);
  unclear.attributed = false;
  EXPECT_TRUE(ledger_.Observe(kGpu, unclear));
  EXPECT_EQ(ledger_.AccountOf(kGpu, base::FromMs(4'999)).promised_mib, 30'000);
}

TEST_F(LedgerTest, ATaskOfSeveralGpusNeedsAPlateauOnAllOfThem) {
  const GpuIndex other{1};
  Claim(kFirst, 15'000);
  Claim(kFirst, 15'000, other);
  EXPECT_EQ(ledger_.PlateauOf(kFirst, base::FromMs(9'000)), std::nullopt);
  ledger_.Observe(kGpu, SampleOf(10'000, {{kFirst, 10'000}}, 1'000));
  ledger_.Observe(other, SampleOf(8'000, {{kFirst, 8'000}}, 5'000));
  EXPECT_EQ(ledger_.PlateauOf(kFirst, base::FromMs(4'000)), std::nullopt);
  EXPECT_EQ(ledger_.PlateauOf(kFirst, base::FromMs(5'000)), 10'000);
  EXPECT_EQ(ledger_.PlateauOf(kSecond, base::FromMs(5'000)), std::nullopt);
}

TEST_F(LedgerTest, TracksTheNeedOnFurtherGpus) {
  const GpuIndex other{1};
  Claim(kFirst, 15'000);
  EXPECT_EQ(ledger_.OthersShareOf(kFirst), std::nullopt) << "it has one GPU";
  Claim(kFirst, 15'000, other);
  EXPECT_EQ(ledger_.OthersShareOf(kFirst), std::nullopt) << "nothing was seen";
  ledger_.Observe(kGpu, SampleOf(10'000, {{kFirst, 10'000}}));
  ledger_.Observe(other, SampleOf(8'000, {{kFirst, 8'000}}));
  EXPECT_EQ(ledger_.OthersShareOf(kFirst), 0.8);
  ledger_.Observe(other, SampleOf(20'000, {{kFirst, 20'000}}));
  EXPECT_EQ(ledger_.OthersShareOf(kFirst), 1);
}

TEST_F(LedgerTest, FirstSeenNeverChanges) {
  Claim(kFirst, 12'000);
  ledger_.Observe(kGpu, SampleOf(0, {{kFirst, 0}}, 1'000));
  EXPECT_EQ(ledger_.ResidentsOf(kGpu)[0].first_seen, std::nullopt);
  ledger_.Observe(kGpu, SampleOf(10, {{kFirst, 10}}, 2'000));
  ledger_.Observe(kGpu, SampleOf(20, {{kFirst, 20}}, 3'000));
  EXPECT_EQ(ledger_.ResidentsOf(kGpu)[0].first_seen, base::FromMs(2'000));
}

}  // namespace
}  // namespace carma::core
