#include "daemon/engine/estimates.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "base/try.h"
#include "daemon/loop/read_as_user.h"
#include "model/summary.h"

namespace carma::daemon {
namespace {

using Clock = std::chrono::steady_clock;

// Estimates are made in slices, so that the first of thousands of tasks does not have to wait for
// the last.
constexpr std::size_t kMostPerSlice = 2'000;

EstimateResult ResultOf(core::TaskId id, estimate::Appraisal appraisal) {
  EstimateResult result;
  result.id = result.forecast.task = id;
  result.estimate = std::move(appraisal.estimate);
  result.kind = appraisal.kind;
  result.profile = appraisal.profile;
  result.forecast.model = std::move(appraisal.model);
  result.forecast.formula = std::move(appraisal.formula);
  result.forecast.remarks = std::move(appraisal.remarks);
  return result;
}

bool SameSummary(const EstimateJob& a, const EstimateJob& b) {
  return a.uid == b.uid && a.gid == b.gid && a.user == b.user &&
         a.spec.model_summary == b.spec.model_summary;
}

// Makes only one estimate for consecutive tasks that are identical except for their array index.
class Memory {
 public:
  explicit Memory(const estimate::Appraiser& appraiser, const estimate::Summary& summary)
      : appraiser_(appraiser), summary_(summary) {}
  EstimateResult Appraise(const EstimateJob& job) {
    if (asked_ && asked_->uid == job.uid) {
      asked_->spec.array_index = job.spec.array_index;
      if (asked_->spec == job.spec) {
        EstimateResult again = result_;
        again.id = again.forecast.task = job.id;
        return again;
      }
    }
    asked_ = job;
    return result_ = ResultOf(job.id, appraiser_.Appraise(job.spec, job.uid, summary_));
  }

 private:
  const estimate::Appraiser& appraiser_;
  const estimate::Summary& summary_;
  std::optional<EstimateJob> asked_;
  EstimateResult result_;
};

// A summary is untrusted input and may need a lot of memory. An error while reading it must not
// bring down the daemon.
estimate::Summary ReadSafely(const EstimateService::Read& read, const EstimateJob& job) {
  const std::string path = job.spec.model_summary.value_or("");
  try {
    return estimate::ReadSummary(read(job), path);
  } catch (const std::exception& error) {
    estimate::Summary summary;
    summary.trouble = path + ": " + error.what();
    return summary;
  }
}

std::vector<EstimateResult> AppraiseAll(const estimate::Appraiser& appraiser,
                                        const std::vector<EstimateJob>& jobs,
                                        const estimate::Summary& summary, Clock::time_point began) {
  std::vector<EstimateResult> results;
  results.reserve(jobs.size());
  Memory memory(appraiser, summary);
  for (const EstimateJob& job : jobs) results.push_back(memory.Appraise(job));
  const auto took =
      (Clock::now() - began) / static_cast<int>(std::max<std::size_t>(1, jobs.size()));
  for (EstimateResult& result : results) result.took = took;
  return results;
}

}  // namespace

// ---- slices of tasks ----

struct EstimateService::Slice {
  std::vector<EstimateJob> jobs;
  Take take;
};

EstimateService::EstimateService(const std::shared_ptr<boost::asio::io_context>& loop,
                                 estimate::AppraisalRules rules, base::Duration time_limit,
                                 Take take, Read read)
    : appraiser_(std::make_shared<const estimate::Appraiser>(std::move(rules))),
      read_(std::make_shared<const Read>(std::move(read))),
      time_limit_(time_limit),
      take_(std::move(take)),
      plain_(loop, BackgroundWorker::AtEnd::kWait),
      reader_(loop, BackgroundWorker::AtEnd::kLeave) {}

void EstimateService::Follow(estimate::AppraisalRules rules, base::Duration time_limit) {
  appraiser_ = std::make_shared<const estimate::Appraiser>(std::move(rules));
  time_limit_ = time_limit;
}

Result<std::string> EstimateService::ReadSummaryFile(const EstimateJob& job) {
  const task::UserInfo user = CARMA_TRY(task::LookUpUser(job.uid, job.gid));
  const std::string why = task::WhyNotTheSubmitter(job.uid, job.user, user.name);
  if (!why.empty()) return Denied("{}", why);
  return ReadAs(user, job.spec.model_summary.value_or(""), model::kMaxSummaryBytes);
}

void EstimateService::Ask(std::vector<EstimateJob> jobs, Take take) {
  if (!take) take = take_;
  auto plain = std::make_shared<Slice>(Slice{{}, take});
  std::shared_ptr<Slice> slice;
  for (EstimateJob& job : jobs) {
    if (!job.spec.model_summary) {
      plain->jobs.push_back(std::move(job));
      if (plain->jobs.size() < kMostPerSlice) continue;
      Appraise(std::exchange(plain, std::make_shared<Slice>(Slice{{}, take})), {});
      continue;
    }
    if (!slice || slice->jobs.size() >= kMostPerSlice || !SameSummary(slice->jobs.front(), job)) {
      slice = std::make_shared<Slice>(Slice{{}, take});
      waiting_.push_back(slice);
    }
    slice->jobs.push_back(std::move(job));
  }
  if (!plain->jobs.empty()) Appraise(std::move(plain), {});
  if (!reading_) ReadNext();
}

// Needs no time limit, because it does not read any file.
void EstimateService::Appraise(std::shared_ptr<const Slice> slice, estimate::Summary summary) {
  plain_.Ask(
      [slice, summary = std::move(summary), appraiser = appraiser_] {
        return AppraiseAll(*appraiser, slice->jobs, summary, Clock::now());
      },
      [slice](std::vector<EstimateResult> results) { slice->take(std::move(results)); });
}

void EstimateService::ReadNext() {
  reading_.reset();
  if (waiting_.empty()) return;
  reading_ = std::move(waiting_.front());
  waiting_.pop_front();
  const std::uint32_t uid = reading_->jobs.front().uid;
  if (stuck_.contains(uid)) return GiveUp("not read: reading another file of this user hangs");
  if (stuck_.size() >= kMostStuck)
    return GiveUp(fmt::format("not read: reading files of {} other users hangs", stuck_.size()));
  const auto first = reader_.Within(time_limit_, [this, uid] {
    // The read might hang in the file system forever. If it ever returns, its result is ignored.
    reader_.Abandon();
    stuck_.insert(uid);
    base::LogWarn("estimate_timed_out", {{"task", reading_->jobs.front().id},
                                         {"tasks", reading_->jobs.size()},
                                         {"stuck", stuck_.size()}});
    GiveUp(fmt::format("could not be read within {} s (estimate.time_limit)",
                       base::Seconds(time_limit_)));
  });
  reader_.Ask(
      [slice = reading_, appraiser = appraiser_, read = read_] {
        const Clock::time_point began = Clock::now();
        const estimate::Summary summary = ReadSafely(*read, slice->jobs.front());
        return AppraiseAll(*appraiser, slice->jobs, summary, began);
      },
      [this, uid, first, slice = reading_](std::vector<EstimateResult> results) {
        if (!first()) {
          stuck_.erase(uid);
          return;
        }
        slice->take(std::move(results));
        ReadNext();
      });
}

// Estimates the tasks without the summary.
void EstimateService::GiveUp(const std::string& why) {
  estimate::Summary summary;
  summary.trouble = reading_->jobs.front().spec.model_summary.value_or("") + ": " + why;
  Appraise(std::exchange(reading_, nullptr), std::move(summary));
  reader_.Later([this] {
    if (!reading_) ReadNext();
  });
}

}  // namespace carma::daemon
