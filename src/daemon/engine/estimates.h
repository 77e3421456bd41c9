// Memory estimates for the daemon: summaries are read and estimators asked on threads of their own,
// never on the loop, each within a limit of time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/values/task.h"
#include "daemon/loop/background_worker.h"
#include "estimate/appraiser.h"
#include "estimate/asking.h"
#include "store/store.h"
#include "task/describe/spec.h"

namespace carma::daemon {

struct EstimateJob {
  core::TaskId id{};
  task::TaskSpec spec;  // the environment may be left out
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

struct EstimateResult {
  core::TaskId id{};
  std::optional<core::Estimate> estimate;
  core::KindId kind{};
  core::Profile profile;
  store::Forecast forecast;
  std::chrono::nanoseconds took{0};  // reading and parsing included, shared by tasks of one file
};

class EstimateService {
 public:
  using Read = std::function<base::Result<std::string>(const EstimateJob&)>;
  using Take = std::function<void(std::vector<EstimateResult>)>;

  // take: called on the loop; every job that was asked is answered once. read: gets the text of a
  // job's summary, on a thread; it may hang for ever.
  EstimateService(const std::shared_ptr<boost::asio::io_context>& loop,
                  estimate::AppraisalRules rules, base::Duration time_limit, Take take,
                  Read read = ReadSummaryFile);

  // Tasks without a summary are answered at once, whatever happens to the others. A file that is
  // not read in time leaves its thread behind, and its tasks are answered as if there were none;
  // while kMostStuck threads are left behind, no summary is read at all.
  // A taker given here gets these results instead; they come in parts, in no order.
  void Ask(std::vector<EstimateJob> jobs, Take take = nullptr);
  const estimate::AppraisalRules& rules() const { return appraiser_->rules(); }
  // For what is asked from now on.
  void Follow(estimate::AppraisalRules rules, base::Duration time_limit);

  // With the rights of the task's user.
  static base::Result<std::string> ReadSummaryFile(const EstimateJob& job);

  static constexpr int kMostStuck = 4;

 private:
  struct Slice;  // tasks of one user with one summary
  void Appraise(std::shared_ptr<const Slice> slice, estimate::Summary summary);
  void ReadNext();
  void GiveUp();

  // Shared with threads that may outlive this object.
  std::shared_ptr<const estimate::Appraiser> appraiser_;
  std::shared_ptr<const Read> read_;
  base::Duration time_limit_;
  Take take_;
  std::deque<std::shared_ptr<const Slice>> waiting_;
  std::shared_ptr<const Slice> reading_;
  int stuck_ = 0;
  BackgroundWorker plain_, reader_;
};

}  // namespace carma::daemon
