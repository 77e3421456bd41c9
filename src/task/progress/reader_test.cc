#include "task/progress/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carma::task {
namespace {

using testing::DoubleNear;
using testing::Optional;

Progress Read(std::string_view text) {
  ProgressReader reader;
  reader.Feed(0, text);
  return reader.Now();
}

// tests/progress/samples.jsonl covers many more programs.
TEST(ProgressReader, ReadsABar) {
  const Progress progress =
      Read("Epoch 2/4:  50%|#####     | 50/100 [00:10<00:10,  5.00it/s, loss=0.25]");
  EXPECT_EQ(progress.phase, Phase::kTrain);
  EXPECT_EQ(progress.unit, "step");
  EXPECT_EQ(progress.done, 50);
  EXPECT_EQ(progress.total, 100);
  EXPECT_EQ(progress.rate_per_s, 5);
  EXPECT_EQ(progress.eta_s, 10);
  EXPECT_EQ(progress.loss, 0.25);
  EXPECT_EQ(progress.epoch, 2);
  EXPECT_THAT(progress.run_fraction, Optional(DoubleNear(0.375, 1e-9)));
  EXPECT_THAT(progress.run_left_s, Optional(DoubleNear(50, 1e-9)));
}

TEST(ProgressReader, KeepsTheRunsFractionDuringAnEvaluation) {
  ProgressReader reader;
  reader.Feed(1, "Epoch 2/4: 100%|####| 100/100 [00:20<00:00,  5.00it/s]\n");
  const Progress before = reader.Now();
  reader.Feed(1, "Validation DataLoader 0:  10%|#   | 1/10 [00:01<00:09,  1.00it/s]");
  const Progress during = reader.Now();
  EXPECT_EQ(during.phase, Phase::kEval);
  EXPECT_EQ(during.done, 1);
  EXPECT_EQ(during.run_fraction, before.run_fraction);
  EXPECT_EQ(during.run_left_s, before.run_left_s);
}

TEST(ProgressReader, CountsAnEpochReportedAsFinished) {
  for (const char* end : {"done", "finished", "[completed in 12 s]", "- complete."}) {
    const auto run = [&](const std::string& epoch) {
      return Read("epoch " + epoch + " " + end + "\n").run_fraction;
    };
    EXPECT_THAT(run("2/5"), Optional(DoubleNear(0.4, 1e-9))) << end;
    EXPECT_THAT(run("5/5"), Optional(DoubleNear(1, 1e-9))) << end;
  }
  EXPECT_EQ(Read("epoch 5/5 done\n").epoch, 5);
  EXPECT_THAT(Read("epoch 2/5\n").run_fraction, Optional(DoubleNear(0.2, 1e-9)));
  const Progress next = Read("epoch 2/5 done\n 50%|##   | 50/100 [00:10<00:10,  5.00it/s]\n");
  EXPECT_EQ(next.epoch, 3);
  EXPECT_THAT(next.run_fraction, Optional(DoubleNear(0.5, 1e-9)));
}

TEST(ProgressReader, TakesOutputInPieces) {
  const std::string text =
      "\r 10%|#   | 10/100 [00:10<01:30,  1.00it/s]\r 11%|#   | 11/100 [00:11<01:29,  1.00it/s]";
  ProgressReader reader;
  for (const char c : text) reader.Feed(1, std::string_view(&c, 1));
  EXPECT_EQ(reader.Now().done, 11);
}

TEST(ProgressReader, FollowsRankZeroAlone) {
  EXPECT_EQ(Read("[rank0]: step 10/500\n[rank1]: step 20/500\n[rank12]: step 30/500\n").done, 10);
}

TEST(ProgressReader, PrefersAReportOfTheProgramItself) {
  const Progress progress =
      Read("carma: progress 5/20 loss 1.5\n 90%|####| 90/100 [00:10<00:01,  9.00it/s]\n");
  EXPECT_EQ(progress.done, 5);
  EXPECT_EQ(progress.run_fraction, 0.25);
  EXPECT_EQ(progress.loss, 1.5);
}

TEST(ProgressReader, FollowsTheBarsOfChainer) {
  constexpr char kFirst[] =
      "     total [..................]  0.64%\nthis epoch [###...............] 12.80%\n"
      "       100 iter, 0 epoch / 20 epochs\n"
      "       inf iters/sec. Estimated time to finish: 0:00:00.\n\x1b[4A";
  EXPECT_FALSE(Read(kFirst).run_left_s) << "no speed yet";
  ProgressReader reader;
  reader.Feed(0, kFirst);
  reader.Feed(0,
              "     total [########..........] 48.00%\nthis epoch [###########.......] 60.00%\n"
              "      7500 iter, 9 epoch / 20 epochs\n"
              "    96.012 iters/sec. Estimated time to finish: 1 day, 0:01:24.50.\n\x1b[4A");
  const Progress progress = reader.Now();
  EXPECT_EQ(progress.unit, "epoch");
  EXPECT_THAT(progress.done, Optional(DoubleNear(9.6, 1e-9)));
  EXPECT_EQ(progress.epoch, 10);
  EXPECT_THAT(progress.run_fraction, Optional(DoubleNear(0.48, 1e-9)));
  EXPECT_THAT(progress.run_left_s, Optional(DoubleNear(86'484.5, 1e-6)));
}

TEST(ProgressReader, IgnoresOtherOutput) {
  for (const char* text : {
           "[12/100] Building CXX object a.o",
           "Loading checkpoint shards:  67%|####  | 2/3 [00:20<00:10, 10.1s/it]",
           "Step 3/12 : RUN make",
           "Accuracy: 9842/10000 (98%)",
           "12/99999999999999999999999999 [00:01<00:02, 3it/s]",
           "50/10 [00:01<00:02, 3it/s]",
           "step -5/100",
           "epoch nan/inf",
           "checking [....................] 12.00%\ntotal [####......] 40.00% of 12 files",
           "epoch       best/loss  file\n3           0.25       12",
       }) {
    EXPECT_FALSE(Read(text).found()) << text;
  }
}

TEST(ProgressReader, DropsTheRestOfALongLine) {
  ProgressReader reader;
  const std::string flood(1 << 16, 'x');
  for (int i = 0; i < 64; ++i) reader.Feed(0, flood);
  reader.Feed(0, " 10/100 [00:10<01:30,  1.00it/s]\nstep 60/100\n");
  EXPECT_EQ(reader.Now().done, 60);
}

TEST(OutputLines, LeavesOutEscapeSequences) {
  OutputLines lines;
  std::string all;
  lines.Feed(
      "\x1b]0;title\aa\x1b[1;32mb\x1b[0m\x1b[2Kc\x01\rd\x1b[A"
      "e\x1b]8;;open\nf",
      [&](std::string_view line) { all += std::string(line) + ";"; });
  EXPECT_EQ(all, "abc;d;e;");
  EXPECT_EQ(lines.pending(), "f");
}

}  // namespace
}  // namespace carma::task
