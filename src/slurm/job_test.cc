#include "slurm/job.h"

#include <gtest/gtest.h>

namespace carma::slurm {
namespace {

// Lines as printed by Slurm 22.05's squeue.
constexpr const char* kArray =
    "2                   |2_2                 |PENDING             |job requeued in held state  "
    "|1   |1   |1     |gres:carma:17          |1     |      |   |main|(null)|"
    "cpu=2,mem=1.50G,node=1,billing=2|0 |carma: out of GPU memory on n1 (claim raised from "
    "12.0G to 17.0G), retry 1 of 3|\n"
    "3                   |2_1                 |RUNNING             |None                        "
    "|1   |0   |0     |gres:gpu:1,gres:carma:1|2     |n[0-1]|n0 |main|maintenance|"
    "cpu=1,mem=1000M,node=2|4294901759  |(null)      |\n";

TEST(Job, IsReadFromALineOfSqueue) {
  const auto held = FindJob(kArray, 2);
  ASSERT_TRUE(held && *held);
  EXPECT_EQ((*held)->name, "2_2");
  EXPECT_TRUE((*held)->Held());
  EXPECT_EQ((*held)->restarts, 1);
  EXPECT_EQ((*held)->carma_gib, 17);
  EXPECT_EQ((*held)->node_list + (*held)->asked_nodes + (*held)->reservation, "");
  EXPECT_TRUE((*held)->on_hold);
  EXPECT_FALSE((*held)->other_gres);
  EXPECT_EQ((*held)->cpus, 2);
  EXPECT_EQ((*held)->memory_mib, 1'536);
  EXPECT_EQ((*held)->admin_comment,
            "carma: out of GPU memory on n1 (claim raised from 12.0G to 17.0G), retry 1 of 3");
  const auto runs = FindJob(kArray, 3);
  ASSERT_TRUE(runs && *runs);
  EXPECT_TRUE((*runs)->Runs());
  EXPECT_FALSE((*runs)->requeue);
  EXPECT_EQ((*runs)->carma_gib, 1);
  EXPECT_EQ((*runs)->nodes, 2);
  EXPECT_EQ((*runs)->node_list, "n[0-1]");
  EXPECT_EQ((*runs)->asked_nodes, "n0");
  EXPECT_EQ((*runs)->partition, "main");
  EXPECT_EQ((*runs)->reservation, "maintenance");
  EXPECT_TRUE((*runs)->other_gres);
  EXPECT_FALSE((*runs)->on_hold);
  EXPECT_EQ((*runs)->gres, "gpu:1,carma:1");
  EXPECT_EQ((*runs)->GresWith(20), "gpu:1,carma:20");
  EXPECT_EQ((*runs)->admin_comment, "");
}

TEST(Job, IgnoresOtherJobs) {
  const auto none = FindJob(kArray, 4);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  EXPECT_FALSE(*FindJob("", 4));
}

TEST(Job, ACommentMayHaveSeveralLines) {
  const std::string text =
      "1|1|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|ada | bob\nin two\n\n  lines |\n"
      "2|2|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|x|\n";
  const auto first = FindJob(text, 1);
  ASSERT_TRUE(first && *first);
  EXPECT_TRUE((*first)->admin_comment.ends_with("lines"));
  const auto second = FindJob(text, 2);
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->admin_comment, "x");
}

TEST(Job, AnUnreadableLineOfAnotherJobDoesNotMatter) {
  const std::string text =
      "1|a b|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|(null)|\n"
      "2|2|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|(null)|\n";
  EXPECT_FALSE(FindJob(text, 1));
  const auto second = FindJob(text, 2);
  EXPECT_TRUE(second && *second);
}

TEST(Job, RejectsMalformedLines) {
  for (const char* line : {"slurm_load_jobs error: Invalid job id specified",
                           "1|1|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1",
                           "x|1|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|(null)|",
                           "1|1|RUNNING|None|1|1|-1|N/A|1|n0||main|(null)|cpu=1|9|(null)|",
                           "1|a b|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|(null)|",
                           "1|1||None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|(null)|",
                           "1|1|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|a comment|more"}) {
    EXPECT_FALSE(FindJob(line, 1)) << line;
  }
  EXPECT_TRUE(FindJob("1|1|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9|(null)|", 1));
  EXPECT_EQ(
      (*FindJob("1|1|RUNNING|None|1|1|0|N/A|1|n0||main|(null)|cpu=1|9| what | they | write |", 1))
          ->admin_comment,
      "what | they | write");
  EXPECT_FALSE(FindJob(std::string(kMostOfSqueue + 1, ' '), 1));
}

}  // namespace
}  // namespace carma::slurm
