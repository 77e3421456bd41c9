#include "slurm/elsewhere.h"

#include <gtest/gtest.h>

namespace carma::slurm {
namespace {

// A line as printed by Slurm 22.05's scontrol.
std::string Line(const std::string& name, const std::string& state, int used_gib,
                 const std::string& more = "") {
  return "NodeName=" + name +
         " Arch=x86_64 CoresPerSocket=1  CPUAlloc=60 CPUEfctv=64 CPUTot=128 CPULoad=0.50 "
         "AvailableFeatures=a,b ActiveFeatures=a Gres=gpu:a100:4(S:0-1),carma:156 "
         "GresDrain=N/A GresUsed=gpu:a100:0(IDX:N/A),carma:" +
         std::to_string(used_gib) + " NodeAddr=" + name +
         " OS=Linux 6.1.0 #1 SMP RealMemory=200000 AllocMem=150000 FreeMem=1000 State=" + state +
         " Partitions=main,apart " + more + "\n";
}

Job Waiting() {
  return {.id = 10,
          .name = "10",
          .state = "RUNNING",
          .batch = true,
          .requeue = true,
          .carma_gib = 20,
          .node_list = "n0",
          .partition = "main",
          .cpus = 4,
          .memory_mib = 1'000};
}

TEST(Elsewhere, ReadsNodesFromScontrol) {
  const auto nodes = ReadNodes(Line("n0", "MIXED", 96) + "\nno node\n" +
                               Line("n1", "IDLE+DRAIN", 0, "Reason=x State=IDLE [root@now]"));
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0], (Node{.name = "n0",
                            .takes_jobs = true,
                            .partitions = {"main", "apart"},
                            .features = "a",
                            .gib = 156,
                            .used_gib = 96,
                            .free_cpus = 4,
                            .free_mib = 50'000}));
  EXPECT_FALSE(nodes[1].takes_jobs);
}

TEST(Elsewhere, ReadsExcludedNodesFromSqueue) {
  EXPECT_EQ(ExcludedNodes("9|n3|\n10|n[0-1]|\n", 10), "n[0-1]");
  EXPECT_EQ(ExcludedNodes("10||\n", 10), "");
  EXPECT_EQ(ExcludedNodes("10|(null)|\n", 10), "");
  EXPECT_FALSE(ExcludedNodes("9|n3|\nslurm_load_jobs error\n", 10));
}

TEST(Elsewhere, FindsANodeWithRoom) {
  const std::string here = Line("n0", "MIXED", 96);
  const auto found = [&](const std::string& others, const Job& job) {
    return NodeFor(job, ReadNodes(here + others)).value_or("");
  };
  const Job job = Waiting();
  EXPECT_EQ(found("", job), "") << "its own node does not count";
  EXPECT_EQ(found(Line("n1", "IDLE", 0), job), "n1");
  EXPECT_EQ(found(Line("n1", "MIXED", 58), job), "n1") << "then half of it is allocated";
  EXPECT_EQ(found(Line("n1", "MIXED", 59), job), "");
  EXPECT_EQ(found(Line("n1", "MIXED", 100) + Line("n2", "MIXED", 8), job), "n2");
  for (const char* state :
       {"DOWN", "IDLE+DRAIN", "MIXED+PLANNED", "IDLE*", "RESERVED", "ALLOCATED"})
    EXPECT_EQ(found(Line("n1", state, 0), job), "") << state;
  Job large = job;
  large.carma_gib = 156;
  EXPECT_EQ(found(Line("n1", "IDLE", 0), large), "n1") << "it is alone on the node";
  EXPECT_EQ(found(Line("n1", "MIXED", 1), large), "");
  Job other = job;
  other.partition = "small";
  EXPECT_EQ(found(Line("n1", "IDLE", 0), other), "");
  Job many = job;
  many.cpus = 5;
  EXPECT_EQ(found(Line("n1", "IDLE", 0), many), "");
  Job memory = job;
  memory.memory_mib = 50'001;
  EXPECT_EQ(found(Line("n1", "IDLE", 0), memory), "");
  std::string otherwise = Line("n1", "IDLE", 0);
  otherwise.replace(otherwise.find("ActiveFeatures=a"), 16, "ActiveFeatures=c");
  EXPECT_EQ(found(otherwise, job), "") << "the job may require that feature";
}

TEST(Elsewhere, KeepsJobsThatMustStay) {
  EXPECT_EQ(WhyItStays(Waiting()), "");
  struct Case {
    const char* why;
    void (*spoil)(Job&);
  };
  const Case cases[] = {
      {"batch scripts", [](Job& job) { job.batch = false; }},
      {"--no-requeue", [](Job& job) { job.requeue = false; }},
      {"is not running", [](Job& job) { job.state = "SUSPENDED"; }},
      {"multi-node", [](Job& job) { job.nodes = 2; }},
      {"multi-node or heterogeneous", [](Job& job) { job.name = "10+1"; }},
      {"specific nodes", [](Job& job) { job.asked_nodes = "n0"; }},
      {"reservation", [](Job& job) { job.reservation = "course"; }},
      {"held", [](Job& job) { job.on_hold = true; }},
      {"gres/carma, or", [](Job& job) { job.other_gres = true; }},
      {"gres/carma, or", [](Job& job) { job.carma_gib = 0; }},
      {"already been restarted", [](Job& job) { job.restarts = 2; }},
  };
  for (const Case& each : cases) {
    Job job = Waiting();
    each.spoil(job);
    EXPECT_NE(WhyItStays(job).find(each.why), std::string::npos) << each.why;
  }
}

}  // namespace
}  // namespace carma::slurm
