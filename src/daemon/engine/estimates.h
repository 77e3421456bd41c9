// Estimates the memory of new tasks. Separate threads read summaries and run estimators within time
// limits, so the loop never blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/values/ids.h"
#include "core/values/promise.h"
#include "daemon/loop/background_worker.h"
#include "estimate/appraiser.h"
#include "estimate/asking.h"
#include "store/store.h"
#include "task/describe/spec.h"

namespace carma::daemon {

struct EstimateJob {
  core::TaskId id{};
  task::TaskSpec spec;  // the environment may be missing
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;  // the user's name at submission; not checked if empty
};

struct EstimateResult {
  core::TaskId id{};
  std::optional<core::Estimate> estimate;
  core::KindId kind{};
  core::Profile profile;
  store::Forecast forecast;
  // Time per task, including reading and parsing the summary; averaged over the tasks with the same
  // summary.
  std::chrono::nanoseconds took{0};
};

class EstimateService {
 public:
  using Read = std::function<Result<std::string>(const EstimateJob&)>;
  using Take = std::function<void(std::vector<EstimateResult>)>;

  // take: called on the loop; receives exactly one result for each job. read: returns the text of a
  // job's summary; runs on a separate thread and may hang forever.
  EstimateService(const std::shared_ptr<boost::asio::io_context>& loop,
                  estimate::AppraisalRules rules, base::Duration time_limit, Take take,
                  Read read = ReadSummaryFile);

  // Estimates these jobs. Tasks without a summary do not wait while summaries are being read. If
  // reading a summary takes too long, its thread is abandoned and the task is estimated without the
  // summary. A summary is not read while an abandoned thread of the same user still hangs, or while
  // kMostStuck abandoned threads hang in total. If `take` is set, it receives the results, in
  // several parts and in any order.
  void Ask(std::vector<EstimateJob> jobs, Take take = nullptr);
  const estimate::AppraisalRules& rules() const { return appraiser_->rules(); }
  // Applies the new settings to later calls to Ask.
  void Follow(estimate::AppraisalRules rules, base::Duration time_limit);

  // Reads the summary with the privileges of the task's user. Returns kDenied if the UID now
  // belongs to a different user.
  static Result<std::string> ReadSummaryFile(const EstimateJob& job);

  static constexpr int kMostStuck = 4;

 private:
  struct Slice;  // tasks of one user with the same summary
  void Appraise(std::shared_ptr<const Slice> slice, estimate::Summary summary);
  void ReadNext();
  void GiveUp(const std::string& why);

  // Shared with threads that may outlive this object.
  std::shared_ptr<const estimate::Appraiser> appraiser_;
  std::shared_ptr<const Read> read_;
  base::Duration time_limit_;
  Take take_;
  std::deque<std::shared_ptr<const Slice>> waiting_;
  std::shared_ptr<const Slice> reading_;
  std::set<std::uint32_t> stuck_;  // users with a read that hangs
  BackgroundWorker plain_, reader_;
};

}  // namespace carma::daemon
