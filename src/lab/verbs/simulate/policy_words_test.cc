#include "lab/verbs/simulate/policy_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::cli {
namespace {

using ::testing::HasSubstr;

SimPolicy PolicyOf(const std::string& spec) {
  const auto words = SplitPolicy(spec, "--policy");
  EXPECT_TRUE(words) << words.error().message;
  auto policy = MakePolicy(config::Settings{}, *words);
  EXPECT_TRUE(policy) << policy.error().message;
  return *policy;
}

std::string Complaint(const std::string& spec) {
  const auto words = SplitPolicy(spec, "--policy");
  if (!words) return words.error().message;
  const auto policy = MakePolicy(config::Settings{}, *words);
  return policy ? "" : policy.error().message;
}

TEST(SimPolicy, AcceptsItsOwnRules) {
  const SimPolicy policy = PolicyOf("score, score=free_mib - max(tasks, 2), require=own_tasks < 2");
  EXPECT_EQ(policy.options.policy.score->text(), "free_mib - max(tasks, 2)");
  EXPECT_EQ(policy.options.policy.require->text(), "own_tasks < 2");
  EXPECT_THAT(Complaint("score,score=2 *"), HasSubstr("at character 4: expected a number"));
  EXPECT_THAT(Complaint("score"), HasSubstr("requires policy.score"));
}

TEST(SimPolicy, ReadsAndWritesListsInParentheses) {
  const SimPolicy policy =
      PolicyOf("magm,rules=(user=* running=2, user=ada gpus=3),score=(free_mib) - (tasks)");
  ASSERT_EQ(policy.options.policy.limits.size(), 2u);
  EXPECT_EQ(policy.options.policy.score->text(), "(free_mib) - (tasks)");
  EXPECT_EQ(PolicyOf(policy.spec).spec, policy.spec);
  EXPECT_EQ(PolicyOf("magm,rules=(user=* running=2)").spec, "magm,rules=user=* running=2");
}

TEST(SimPolicy, AcceptsConfigurationKeysWithAndWithoutTheirSection) {
  const SimPolicy policy = PolicyOf("lug, sm_cap=0.75, policy.margin=1G, recovery.mode=exclusive");
  EXPECT_EQ(policy.options.policy.mapper, "lug");
  EXPECT_EQ(policy.options.policy.sm_cap, 0.75);
  EXPECT_EQ(policy.options.policy.margin_mib, 1024);
  EXPECT_EQ(policy.options.policy.recovery, core::RecoveryMode::kExclusive);
  EXPECT_EQ(policy.spec, "lug,sm_cap=0.75,policy.margin=1G,recovery.mode=exclusive");
  EXPECT_EQ(policy.label, policy.spec);
}

TEST(SimPolicy, WordsOfItsOwnDescribeTheSimulatedWorld) {
  const SimPolicy policy = PolicyOf(
      "magm,estimator=gpumemnet,estimator_sigma=0.2,collocation=streams,sampling=periodic,"
      "window=90s,label=streams");
  EXPECT_EQ(policy.options.estimates.source, "gpumemnet");
  EXPECT_EQ(policy.options.estimates.sigma, 0.2);
  EXPECT_EQ(policy.options.collocation, core::SharingMethod::kStreams);
  EXPECT_EQ(policy.options.monitor.mode, sim::MonitorOptions::Mode::kPeriodic);
  EXPECT_EQ(policy.options.monitor.window, base::Duration(90'000));
  EXPECT_EQ(PolicyOf("magm,monitor.window=90s").options.monitor.window, base::Duration(90'000));
  EXPECT_EQ(policy.label, "streams");
}

TEST(SimPolicy, UsesTheDaemonsEstimatorUnlessAWordNamesAnother) {
  const sim::EstimateOptions day_one = PolicyOf("magm").options.estimates;
  EXPECT_EQ(day_one.method, "auto");
  EXPECT_EQ(day_one.coverage, 0.9);
  EXPECT_TRUE(day_one.learns);
  EXPECT_FALSE(day_one.carries);
  EXPECT_EQ(PolicyOf("magm,estimator=structural").options.estimates.method, "structural");
  const sim::EstimateOptions told = PolicyOf("magm,estimator=oracle").options.estimates;
  EXPECT_EQ(told.method, "");
  EXPECT_EQ(told.source, "oracle");
  EXPECT_EQ(PolicyOf("magm,published=v2").options.estimates.source, "oracle");
  EXPECT_FALSE(PolicyOf("magm,history=none").options.estimates.learns);
  EXPECT_TRUE(PolicyOf("magm,history=runs").options.estimates.carries);
  EXPECT_THAT(Complaint("magm,history=yes"), HasSubstr("history: expected none, run or runs"));
}

TEST(SimPolicy, WordsMeanTheSameAsInTheDaemon) {
  const auto loaded = config::LoadText("f.toml", "policy.mapper = 'by-work'", true);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const core::PolicyConfig daemons = PolicyFor(loaded->settings, core::SharingMethod::kMps);
  for (const char* word : {"by-work", "auto"}) {
    const sim::RunOptions options = PolicyOf(word).options;
    EXPECT_EQ(options.policy.mapper, "by-work") << word;
    EXPECT_EQ(options.policy.min_gain, daemons.min_gain) << word;
    EXPECT_EQ(options.policy.backfill, daemons.backfill) << word;
    EXPECT_EQ(options.policy.floor_share, daemons.floor_share) << word;
    EXPECT_EQ(options.policy.pass_limit, daemons.pass_limit) << word;
    EXPECT_EQ(options.policy.sm_cap, daemons.sm_cap) << word;
  }
  EXPECT_EQ(PolicyOf("by-work,backfill=4").options.policy.backfill, 4) << "an explicit word wins";
  EXPECT_EQ(PolicyOf("auto,collocation=streams").options.policy.mapper, "magm");
  EXPECT_EQ(PolicyOf("auto,collocation=mig").options.policy.mapper, "magm");
}

TEST(SimPolicy, AppliesTheMpsLimitAsTheDaemonDoes) {
  EXPECT_TRUE(PolicyOf("magm").options.mps_memory_limit);
  EXPECT_FALSE(PolicyOf("magm,mps_memory_limit=false").options.mps_memory_limit);
  EXPECT_FALSE(PolicyOf("magm,mps_servers=gpu,published=v2").options.mps_memory_limit);
  EXPECT_THAT(Complaint("magm,mps_memory_limit=some"), HasSubstr("expected true or false"));
}

TEST(SimPolicy, UsesTheDaemonsMpsServers) {
  EXPECT_FALSE(PolicyOf("auto").options.policy.gangs_take_turns);
  EXPECT_TRUE(PolicyOf("auto,mps_servers=gpu").options.policy.gangs_take_turns);
  EXPECT_FALSE(PolicyOf("magm,published=v2").options.policy.gangs_take_turns);
  EXPECT_THAT(Complaint("magm,mps_servers=task"),
              HasSubstr("mps_servers: expected \"user\", \"gpu\" or \"shared\""));
}

TEST(SimPolicy, KeepsAConfigurationThatLearnsNothing) {
  config::Settings settings;
  settings.estimate_history = false;
  settings.estimate_method = "history";
  const auto policy = MakePolicy(settings, {});
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_FALSE(policy->options.estimates.learns);
  EXPECT_EQ(policy->options.estimates.method, "history");
}

TEST(SimPolicy, InstancesAreSharedOnlyIfConfigured) {
  EXPECT_EQ(PolicyOf("magm,collocation=streams").options.policy.sm_cap, 0.4) << "as carmad does";
  EXPECT_EQ(PolicyOf("magm,collocation=streams").options.policy.max_tasks_per_gpu, 3);
  EXPECT_EQ(PolicyOf("magm,collocation=streams,streams_tasks=2").options.policy.max_tasks_per_gpu,
            2);
  EXPECT_EQ(PolicyOf("magm,sm_cap=0.7,collocation=streams").options.policy.sm_cap, 0.7)
      << "an explicit word applies";
  EXPECT_EQ(PolicyOf("magm,collocation=mps").options.policy.sm_cap, 0.8);
  EXPECT_EQ(PolicyOf("rr,published=v2,collocation=streams").options.policy.max_tasks_per_gpu,
            PolicyOf("rr,published=v2").options.policy.max_tasks_per_gpu);
  EXPECT_FALSE(PolicyOf("magm,collocation=mig,mig_instances=3").options.policy.share_mig);
  EXPECT_TRUE(PolicyOf("magm,collocation=mig,share_mig=true").options.policy.share_mig);
}

TEST(SimPolicy, ExplicitLimitsApplyToSharedInstances) {
  const std::string mig = "magm,collocation=mig,share_mig=true";
  const core::PolicyConfig both = PolicyOf(mig + ",sm_cap=0.8,max_tasks_per_gpu=6").options.policy;
  EXPECT_EQ(both.streams_sm_cap, 0.8);
  EXPECT_EQ(both.streams_tasks, 6);
  const core::PolicyConfig own =
      PolicyOf(mig + ",streams_sm_cap=0.5,streams_tasks=2,sm_cap=0.8,max_tasks_per_gpu=6")
          .options.policy;
  EXPECT_EQ(own.streams_sm_cap, 0.5);
  EXPECT_EQ(own.streams_tasks, 2);
  EXPECT_EQ(PolicyOf(mig).options.policy.streams_sm_cap, 0.4) << "as carmad does";
  EXPECT_EQ(PolicyOf("magm,collocation=mps,sm_cap=0.9").options.policy.streams_sm_cap, 0.4);
}

TEST(SimPolicy, ReadsTheWordsOfACluster) {
  EXPECT_EQ(PolicyOf("magm").options.above, sim::Above{});
  const sim::Above slurm =
      PolicyOf("magm,cluster=slurm,spread=true,slurm_backfill=true,wait=5m,wait_requeues=1")
          .options.above;
  EXPECT_EQ(slurm.placing, sim::Placing::kSlurm);
  EXPECT_EQ(slurm.gres, sim::Gres::kCarma);
  EXPECT_TRUE(slurm.spread && slurm.backfill);
  EXPECT_EQ(slurm.wait, std::chrono::minutes(5));
  EXPECT_EQ(slurm.wait_requeues, 1);
  // Slurm does not start MPS.
  EXPECT_EQ(PolicyOf("magm,cluster=slurm,gres=shard").options.collocation,
            core::SharingMethod::kStreams);
  EXPECT_EQ(PolicyOf("magm,cluster=slurm,gres=shard,collocation=mps").options.collocation,
            core::SharingMethod::kMps);
  EXPECT_THAT(Complaint("magm,cluster=flux"), HasSubstr("expected queue, slurm or asked"));
  EXPECT_THAT(Complaint("magm,gres=mps"), HasSubstr("expected carma, gpu or shard"));
  // The configuration key recovery.patience does not affect how long a task waits on a server.
  EXPECT_EQ(PolicyOf("magm,recovery.patience=5m").options.above.wait, sim::Above{}.wait);
}

TEST(SimPolicy, ALaterWordWinsAndAppearsOnceInTheSpec) {
  const SimPolicy policy = PolicyOf("magm,sm_cap=0.8,sm_cap=false");
  EXPECT_EQ(policy.options.policy.sm_cap, std::nullopt);
  EXPECT_EQ(policy.spec, "magm,sm_cap=false");
}

TEST(SimPolicy, APublishedVersionSetsItsPacing) {
  EXPECT_EQ(PolicyOf("magm,published=thesis").options.policy.pacing, core::Pacing::kThesis);
  EXPECT_EQ(PolicyOf("magm,published=v2").options.policy.pacing, core::Pacing::kV2);
}

TEST(SimPolicy, ErrorsNameThePlaceAndTheExpectedForm) {
  EXPECT_THAT(Complaint("magm,sm_cap=1.5"), HasSubstr("--policy: sm_cap: expected fraction"));
  EXPECT_THAT(Complaint("bogus"), HasSubstr("--policy: mapper: expected"));
  EXPECT_THAT(Complaint("magm,smcap=0.8"), HasSubstr("did you mean sm_cap?"));
  EXPECT_THAT(Complaint("magm,window=1ms"),
              HasSubstr("window: expected time span with unit, from"));
  EXPECT_THAT(Complaint("magm,collocation=mpss"), HasSubstr("expected exclusive, streams, mps"));
  EXPECT_THAT(Complaint("magm,share_mig=perhaps"), HasSubstr("share_mig: expected true or false"));
  EXPECT_THAT(Complaint("magm,socket=/x"), HasSubstr("unknown policy keyword"));
  // idle_action is rejected, because in the simulated cluster no task holds a GPU without using it.
  EXPECT_THAT(Complaint("magm,idle_action=end"), HasSubstr("unknown policy keyword"));
  EXPECT_THAT(Complaint("magm,gpu_speeds=A100=2"), HasSubstr("unknown policy keyword"));
  EXPECT_THAT(Complaint("magm,,lug"), HasSubstr("expected keywords like"));
  EXPECT_THAT(Complaint(""), HasSubstr("expected keywords like"));
}

}  // namespace
}  // namespace carma::cli
