#include "slurm/job_return.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/fields_json.h"
#include "base/json.h"
#include "base/test_fields.h"

namespace carma::slurm {
namespace {

using What = NextStep::What;

JobReturn Asked() {
  return {.job = 10, .retries = 3, .claim_gib = 15, .comment = "carma: more"};
}

Job Seen(const std::string& state, int restarts, const std::string& reason = "None") {
  return {.id = 10,
          .name = "10",
          .state = state,
          .reason = reason,
          .batch = true,
          .requeue = true,
          .restarts = restarts,
          .carma_gib = 10,
          .gres = "carma:10"};
}

// A fake Slurm with one job.
class OneJob {
 public:
  Job job = Seen("RUNNING", 0);
  std::string comment;
  std::string refuses;  // rejects requests with a word that begins with this text

  std::vector<std::vector<std::string>> asked;

  bool Do(const std::vector<std::string>& words) {
    asked.push_back(words);
    const auto is_refused = [&](const std::string& word) { return word.starts_with(refuses); };
    if (!refuses.empty() && std::ranges::any_of(words, is_refused)) return false;
    if (words[0] == "requeuehold") {
      if (job.Waits()) return false;
      job.state = "COMPLETING";
      job.reason = "job requeued in held state";
      ++job.restarts;
    } else if (words[0] == "update") {
      if (!job.Waits()) return false;
      for (const std::string& word : words) {
        if (word.starts_with("Gres=")) job.carma_gib = std::stoll(word.substr(word.rfind(':') + 1));
        if (word.starts_with("AdminComment=")) job.admin_comment = comment = word.substr(13);
      }
    } else if (words[0] == "release") {
      job.reason = "BeginTime";
    }
    return true;
  }
  void TimePasses() {
    if (job.state == "COMPLETING" && job.restarts > 0) job.state = "PENDING";
  }
};

// A program that stores its plan before each step and can be killed before or after any step.
class Desk {
 public:
  explicit Desk(OneJob& slurm) : slurm_(slurm) {}
  JobReturn kept = Asked();
  int steps_until_death = 1'000;
  std::optional<NextStep> last;

  // Returns false if the program was killed.
  bool Work() {
    JobReturn back = kept;
    for (int look = 0; look < 60; ++look) {
      back = Begun(back, slurm_.job);
      last = Next(back, slurm_.job);
      if (last->what == What::kDone || last->what == What::kGiveUp) return true;
      if (last->what == What::kWait) {
        slurm_.TimePasses();
        continue;
      }
      if (back.step != last->step) back.refusals = 0;
      back.step = last->step;
      if (!Lives()) return false;
      kept = back;
      if (!Lives()) return false;
      const bool done = slurm_.Do(last->words);
      if (!Lives()) return false;
      if (done) {
        back = After(back, last->step);
      } else {
        ++back.refusals;
      }
    }
    ADD_FAILURE() << "the requeue never ends";
    return true;
  }

 private:
  bool Lives() { return --steps_until_death >= 0; }
  OneJob& slurm_;
};

TEST(JobReturn, IsRequeuedWithItsNeedAndReleased) {
  OneJob slurm;
  Desk desk(slurm);
  EXPECT_TRUE(desk.Work());
  EXPECT_EQ(desk.last->what, What::kDone);
  EXPECT_EQ(slurm.job.state, "PENDING");
  EXPECT_FALSE(slurm.job.Held());
  EXPECT_EQ(slurm.job.carma_gib, 15);
  EXPECT_EQ(slurm.job.restarts, 1);
  EXPECT_EQ(slurm.comment, "carma: more, retry 1 of 3");
}

TEST(JobReturn, SurvivesACrashAtAnyPoint) {
  for (int death = 0; death < 12; ++death) {
    OneJob slurm;
    Desk first(slurm);
    first.steps_until_death = death;
    first.Work();
    Desk second(slurm);
    second.kept = first.kept;
    EXPECT_TRUE(second.Work());
    EXPECT_EQ(second.last->what, What::kDone) << death;
    EXPECT_EQ(slurm.job.restarts, 1) << "requeued twice, killed at " << death;
    EXPECT_EQ(slurm.job.carma_gib, 15) << death;
    EXPECT_EQ(slurm.comment, "carma: more, retry 1 of 3") << death;
    EXPECT_FALSE(slurm.job.Held()) << "still held, killed at " << death;
  }
}

TEST(JobReturn, ReleasesAJobThatSlurmRefusesToChange) {
  for (const char* refused : {"Gres=", "update"}) {
    OneJob slurm;
    slurm.refuses = refused;
    Desk desk(slurm);
    EXPECT_TRUE(desk.Work());
    EXPECT_EQ(desk.last->what, What::kDone) << refused;
    EXPECT_FALSE(slurm.job.Held()) << refused;
    EXPECT_EQ(slurm.job.carma_gib, 10) << refused;
    EXPECT_EQ(slurm.comment.empty(), std::string(refused) == "update");
  }
}

TEST(JobReturn, RaisesButDoesNotReleaseAHeldJob) {
  OneJob slurm;
  slurm.job.on_hold = true;
  Desk desk(slurm);
  EXPECT_TRUE(desk.Work());
  EXPECT_EQ(desk.last->what, What::kDone);
  EXPECT_EQ(slurm.job.carma_gib, 15);
  EXPECT_TRUE(slurm.job.Held());
}

TEST(JobReturn, KeepsCommentsAndRequestsOfOthers) {
  OneJob slurm;
  slurm.job.gres = "nvme:50,carma:10,disk:2";
  slurm.job.admin_comment = "ada: node 7\nis slow";
  Desk desk(slurm);
  EXPECT_TRUE(desk.Work());
  EXPECT_EQ(slurm.asked[1], (std::vector<std::string>{
                                "update", "JobId=10", "Gres=nvme:50,disk:2,carma:15",
                                "AdminComment=ada: node 7\nis slow | carma: more, retry 1 of 3"}));
  EXPECT_EQ(RetriesToldIn(slurm.comment), 1);
  Job again = slurm.job;
  again.state = "RUNNING";
  EXPECT_EQ(Begun(Asked(), again).comment, "carma: more, retry 2 of 3");
  Job waits = Seen("PENDING", 1, "job requeued in held state");
  waits.admin_comment = slurm.comment;
  EXPECT_EQ(Next(Asked(), waits).words.back(), "AdminComment=ada: node 7\nis slow | carma: more");
  waits.admin_comment = std::string(290, 'x');
  EXPECT_EQ(Next(Asked(), waits).words.back(), "Gres=carma:15") << "it would be truncated";
  waits.carma_gib = 0;
  EXPECT_EQ(Next(Asked(), waits).words.front(), "release") << "nothing to change";
}

TEST(JobReturn, NextStepFollowsFromSlurmsState) {
  struct Case {
    const char* name;
    JobReturn back;
    std::optional<Job> job;
    What what;
    std::string first_word;
  };
  JobReturn asked = Asked();
  asked.restart = 0;
  JobReturn raised = asked;
  raised.step = ReturnStep::kRelease;
  JobReturn refused = asked;
  refused.refusals = kMostRefusals;
  Job interactive = Seen("RUNNING", 0), fixed = Seen("RUNNING", 0);
  interactive.batch = false;
  fixed.requeue = false;
  Job component = Seen("RUNNING", 0);
  component.name = "10+1";
  Job tried = Seen("RUNNING", 5), often = Seen("RUNNING", 13);
  tried.admin_comment =
      "carma: out of GPU memory on n1 (claim raised from 1.0G to 2.0G), retry 3 of 3";
  Job victim = tried;
  victim.restarts = 9;
  JobReturn innocent{.job = 10, .retries = 10, .comment = "carma: killed by a neighbour"};
  const std::string held = "job requeued in held state";
  const Case cases[] = {
      {"still runs", asked, Seen("RUNNING", 0), What::kRun, "requeuehold"},
      {"suspended", asked, Seen("SUSPENDED", 0), What::kRun, "requeuehold"},
      {"its script has just failed", asked, Seen("COMPLETING", 0, "NonZeroExitCode"), What::kRun,
       "requeuehold"},
      {"is being cancelled", asked, Seen("COMPLETING", 0), What::kGiveUp, ""},
      {"reached its time limit", asked, Seen("COMPLETING", 0, "TimeLimit"), What::kGiveUp, ""},
      {"its end was already reported", asked, Seen("FAILED", 0), What::kGiveUp, ""},
      {"was cancelled", asked, Seen("CANCELLED", 0), What::kGiveUp, ""},
      {"interactive", asked, interactive, What::kGiveUp, ""},
      {"heterogeneous", asked, component, What::kGiveUp, ""},
      {"--no-requeue", asked, fixed, What::kGiveUp, ""},
      {"not requested yet", Asked(), Seen("RUNNING", 2), What::kRun, "requeuehold"},
      {"restarts for other causes are not retries", Asked(), Seen("RUNNING", 4), What::kRun,
       "requeuehold"},
      {"no retries left", Asked(), tried, What::kGiveUp, ""},
      {"the comment was overwritten each time", Asked(), often, What::kGiveUp, ""},
      {"a victim loses no retries", innocent, victim, What::kRun, "requeuehold"},
      {"a victim too many times", innocent, often, What::kGiveUp, ""},
      {"forgotten by Slurm", asked, std::nullopt, What::kGiveUp, ""},
      {"always refused", refused, Seen("RUNNING", 0), What::kGiveUp, ""},
      {"returning to the queue", asked, Seen("COMPLETING", 1), What::kWait, ""},
      {"in the queue", asked, Seen("PENDING", 1, held), What::kRun, "update"},
      {"in the queue, released by a user", asked, Seen("PENDING", 1, "Priority"), What::kRun,
       "update"},
      {"raised", raised, Seen("PENDING", 1, held), What::kRun, "release"},
      {"released", raised, Seen("PENDING", 1, "BeginTime"), What::kDone, ""},
      {"runs again", raised, Seen("RUNNING", 1), What::kDone, ""},
      {"was restarted by someone else", asked, Seen("RUNNING", 2), What::kDone, ""},
  };
  for (const Case& each : cases) {
    const NextStep next = Next(each.back, each.job);
    EXPECT_EQ(next.what, each.what) << each.name;
    EXPECT_EQ(next.words.empty() ? "" : next.words.front(), each.first_word) << each.name;
    EXPECT_EQ(next.why.empty(), next.what != What::kGiveUp) << each.name;
  }
}

TEST(JobReturn, CountsRetriesAcrossVictimRestarts) {
  EXPECT_EQ(RetriesToldIn(""), 0);
  EXPECT_EQ(RetriesToldIn("somebody's, retry 7 of 8"), 0);
  EXPECT_EQ(RetriesToldIn("carma: waiting for GPUs on n1"), 0);
  EXPECT_EQ(RetriesToldIn("carma: x, retry many"), 0);
  EXPECT_EQ(RetriesToldIn("carma: x, retry 1 of 3 | carma: waited, retry 7 of 8"), 1);
  Job job = Seen("RUNNING", 1);
  job.admin_comment = Begun(Asked(), Seen("RUNNING", 0)).comment;
  const JobReturn innocent{.job = 10, .retries = 10, .comment = "carma: killed by a neighbour"};
  EXPECT_EQ(Begun(innocent, Seen("RUNNING", 0)).comment, "carma: killed by a neighbour");
  const JobReturn victim = Begun(innocent, job);
  EXPECT_EQ(victim.comment, "carma: killed by a neighbour, retry 1 of 3");
  job.restarts = 2;
  job.admin_comment = victim.comment;
  EXPECT_EQ(Begun(Asked(), job).comment, "carma: more, retry 2 of 3");
}

TEST(JobReturn, RequeuesASingleArrayElement) {
  Job element = Seen("RUNNING", 0);
  element.name = "10_3";
  EXPECT_EQ(Next(Asked(), element).words, (std::vector<std::string>{"requeuehold", "10_3"}));
}

TEST(JobReturn, AJobThatSlurmDoesNotCountIsNotRaised) {
  Job uncounted = Seen("PENDING", 1, "job requeued in held state");
  uncounted.carma_gib = 0;
  EXPECT_EQ(Next(Asked(), uncounted).words,
            (std::vector<std::string>{"update", "JobId=10", "AdminComment=carma: more"}));
}

// A fake Slurm with one job that waits for GPUs on n0. Step() changes the job as scontrol would.
class JobElsewhere : public ::testing::Test {
 protected:
  JobElsewhere() {
    job.node_list = "n0";
    job.excluded = "";
    back = LeaveNode(job);
  }
  // Carries out the next request and returns its first word, or "" if there is no request.
  std::string Step(bool long_in_queue = false) {
    back = Begun(back, job);
    last = Next(back, job, long_in_queue);
    if (last.what != What::kRun) return "";
    back.step = last.step;
    if (last.words[0] == "requeuehold") {
      ++job.restarts;
      job.state = "PENDING";
      job.reason = kHeldByRequeue;
      job.node_list = "";
    }
    for (const std::string& word : last.words) {
      if (word.starts_with("ExcNodeList=")) job.excluded = word.substr(12);
      if (word.starts_with("AdminComment=")) job.admin_comment = word.substr(13);
    }
    if (last.words[0] == "release") job.reason = "BeginTime";
    back = After(back, last.step);
    return last.words[0];
  }
  void Runs(const std::string& node) {
    job.state = "RUNNING";
    job.reason = "None";
    job.node_list = node;
  }

  Job job = Seen("RUNNING", 0);
  JobReturn back;
  NextStep last;
};

TEST_F(JobElsewhere, ExcludesItsNodeAndIsWatchedToItsEnd) {
  EXPECT_TRUE(back.MayBeDropped());
  EXPECT_EQ(Step(), "requeuehold");
  EXPECT_FALSE(back.MayBeDropped());
  EXPECT_EQ(Step(), "update");
  EXPECT_EQ(job.excluded, "n0");
  EXPECT_EQ(job.admin_comment, "carma: waited for GPUs on n0; moving to another node");
  EXPECT_EQ(job.carma_gib, 10);
  EXPECT_EQ(Step(), "release");
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(last.what, What::kWatch) << "it waits until its old credential has expired";
  Runs("n1");
  EXPECT_EQ(Step(true), "");
  EXPECT_EQ(last.what, What::kWatch) << "the excluded nodes of a running job cannot be changed";
  job.state = "COMPLETED";
  Step();
  EXPECT_EQ(last.what, What::kWatch) << "it may still be requeued";
  EXPECT_EQ(Next(back, std::nullopt).what, What::kDone);
}

TEST_F(JobElsewhere, KeepsTheNumberOfItsRetry) {
  job.admin_comment = "carma: x, retry 1 of 3 | carma: waiting for GPUs on n0: (SmBusy) a";
  while (last.what != What::kWatch) Step();
  EXPECT_EQ(job.admin_comment,
            "carma: x, retry 1 of 3 | carma: waited for GPUs on n0; moving to another node");
}

TEST_F(JobElsewhere, MayUseItsNodeAgainOnceRequeued) {
  while (last.what != What::kWatch) Step();
  EXPECT_EQ(Step(true), "update") << "nothing was free elsewhere";
  EXPECT_EQ(job.excluded, "");
  Step();
  EXPECT_EQ(last.what, What::kDone);

  job.excluded = "n0";
  Runs("n1");
  Step();
  EXPECT_EQ(last.what, What::kWatch);
  job.state = "PENDING";
  job.restarts = 2;  // restarted for a different reason
  EXPECT_EQ(Step(), "update");
  EXPECT_EQ(job.excluded, "");
}

TEST_F(JobElsewhere, AKillAtAnyStepChangesNothing) {
  for (const int steps : {0, 1, 2, 3}) {
    job = Seen("RUNNING", 0);
    job.node_list = "n0";
    job.excluded = "";
    back = LeaveNode(job);
    JobReturn kept = back;
    for (int i = 0; i < steps; ++i) {
      kept = back;
      Step();
    }
    kept.step = steps == 0 ? kept.step : last.step;  // stored before the request
    back = kept;
    for (int i = 0; i < 5; ++i) Step();
    EXPECT_EQ(last.what, What::kWatch) << steps;
    EXPECT_EQ(job.restarts, 1) << steps;
    EXPECT_EQ(job.excluded, "n0") << steps;
    EXPECT_FALSE(job.Held()) << steps;
  }
}

TEST_F(JobElsewhere, RespectsChoicesOfUsers) {
  job.excluded = "n7";
  Step();
  EXPECT_EQ(last.what, What::kGiveUp);
  job.excluded = "";
  job.admin_comment = "ada: mine";
  while (last.what != What::kWatch) Step();
  EXPECT_EQ(job.admin_comment, "ada: mine");
  job.reason = "JobHeldUser";
  EXPECT_EQ(Step(), "") << "its user has held it";
  job.excluded = "n0,n7";
  Step();
  EXPECT_EQ(last.what, What::kDone) << "changed by an administrator";
}

TEST_F(JobElsewhere, ReleasesAJobIfSlurmRefusesTheExclusion) {
  Step();
  back.step = ReturnStep::kRaise;
  back.refusals = kMostRefusals / 2;
  EXPECT_EQ(Step(), "release");
  Step();
  EXPECT_EQ(last.what, What::kDone);
}

TEST(JobReturn, ComputesTheClaimOfTheNextRun) {
  const FailedRun run{.out_of_memory = true,
                      .gpus = 2,
                      .had_mib = 10'240,
                      .wanted_mib = 15'000,
                      .most_mib = 40'536,
                      .job = 10};
  const auto back = ReturnOf(run);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->claim_gib, 30);  // of both GPUs, rounded up
  EXPECT_EQ(back->comment, "carma: out of GPU memory on %n (claim raised from 10.0G to 14.6G)");
  Job job = Seen("RUNNING", 0);
  job.node_list = "gpu07";
  EXPECT_EQ(Begun(*back, job).comment,
            "carma: out of GPU memory on gpu07 (claim raised from 10.0G to 14.6G), retry 1 of 3")
      << "uses the node's name in Slurm";
  FailedRun large = run;
  large.wanted_mib = 60'000;
  EXPECT_EQ(ReturnOf(large)->claim_gib, 79) << "all of the memory";
  FailedRun whole = run;
  whole.had_mib = whole.most_mib;
  EXPECT_FALSE(ReturnOf(whole));
  FailedRun none = run;
  none.most_retries = 0;
  EXPECT_FALSE(ReturnOf(none));
  FailedRun victim = none;
  victim.out_of_memory = false;
  ASSERT_TRUE(ReturnOf(victim));
  EXPECT_EQ(ReturnOf(victim)->claim_gib, 0) << "the claim is unchanged";
}

TEST(JobReturn, IsKeptWhole) {
  JobReturn back = Asked();
  back.restart = 1;
  back.step = ReturnStep::kRaise;
  back.refusals = 2;
  back.exclude = "n0";
  const auto json =
      base::ParseJson(base::DumpJson(base::FieldsToJson(back, base::Absent::kLeftOut)));
  const auto again = base::FieldsFromJson<JobReturn>(*json, "", base::Unknown::kRefused);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, back);
}

TEST(JobReturn, ContinuesAfterEveryDeparture) {
  const auto back = ReturnOf({.left = true, .most_retries = 0, .job = 12});
  ASSERT_TRUE(back) << "retries after failures do not matter here";
  EXPECT_EQ(back->claim_gib, 0);
  EXPECT_EQ(back->comment, "carma: had to leave its GPUs on %n; will continue later");
  Job job{.id = 12, .name = "12", .state = "RUNNING", .batch = true, .requeue = true};
  job.restarts = 200;
  EXPECT_EQ(Next(*back, job).step, ReturnStep::kRequeue);
  job.requeue = false;
  EXPECT_EQ(Next(*back, job).what, NextStep::What::kGiveUp);
}

}  // namespace
}  // namespace carma::slurm
