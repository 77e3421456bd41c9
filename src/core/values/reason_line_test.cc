#include "core/values/reason_line.h"

#include <gtest/gtest.h>

#include <vector>

namespace carma::core {
namespace {

TEST(ReasonLine, CodeCanBeParsedBack) {
  const Reason reasons[] = {{ReasonCode::kOutOfMemory, "it asked for 3: too much"},
                            {ReasonCode::kVictim, ""},
                            {ReasonCode::kNone, "restored"},
                            {ReasonCode::kNone, ""}};
  std::vector<std::string> lines;
  for (const Reason& reason : reasons) {
    lines.push_back(ReasonLine(reason));
    EXPECT_EQ(ReasonOfLine(lines.back()), reason.code) << lines.back();
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"OutOfMemory: it asked for 3: too much", "Victim",
                                             "restored", ""}));
  EXPECT_EQ(ReasonLine({ReasonCode::kSignal, "two\nlines"}).find('\n'), std::string::npos);
}

TEST(ReasonLine, AClauseBeginsInLowerCase) {
  EXPECT_EQ(CanNeverRun("train", "The task asks for 9 GPUs, but this server has 4."),
            "task 'train' can never run here: the task asks for 9 GPUs, but this server has 4");
  EXPECT_EQ(CanNeverRun("a\n", "GPU 7 is none of them."),
            "task 'a?' can never run here: GPU 7 is none of them");
  EXPECT_EQ(AsSentence("exit code 1: ValueError"), "Exit code 1: ValueError.");
}

TEST(ReasonLine, PublicTextHasNoOutputOfTheTask) {
  using enum ReasonCode;
  EXPECT_EQ(PublicText(kNonZeroExit, "Exit code 1: KeyError: 'secret'."), "Exit code 1.");
  EXPECT_EQ(PublicText(kNonZeroExit, "Exited with status 1."), "Exited with status 1.");
  EXPECT_EQ(PublicText(kGpuFault, "Failed because of a fault on its GPU: secret."),
            "Failed because of a fault on its GPU.");
  EXPECT_EQ(PublicText(kOutOfMemory, "Ran out of GPU memory 3 times; no retries left (a (b) c)."),
            "Ran out of GPU memory 3 times; no retries left.");
  EXPECT_EQ(PublicText(kOutOfMemory, "Ran out of GPU memory (a line that is cu"),
            "Ran out of GPU memory.");
  EXPECT_EQ(PublicText(kOutOfMemory, "Ran out of GPU memory (tried (GPU 0; 1 GiB) secret, cu"),
            "Ran out of GPU memory.");
  EXPECT_EQ(
      PublicText(kOutOfMemory, "Ran out of GPU memory (a (b) c). Retry 1 of 3 on an idle GPU."),
      "Ran out of GPU memory. Retry 1 of 3 on an idle GPU.");
  EXPECT_EQ(PublicText(kNodeFail, "Its GPU failed: GPU is lost."), "Its GPU failed: GPU is lost.");
  EXPECT_EQ(PublicLine("NonZeroExit: Exit code 1: secret."), "NonZeroExit: Exit code 1.");
  EXPECT_EQ(PublicLine("by ada, task 2 again: x"), "by ada, task 2 again: x");
  EXPECT_EQ(PublicDetail("exit code 1: KeyError: 'secret'"), "exit code 1");
  EXPECT_EQ(PublicDetail("killed by signal 9 (SIGKILL); 3M of its output could not be written"),
            "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(PublicDetail("torch.OutOfMemoryError: secret"), "");
}

}  // namespace
}  // namespace carma::core
