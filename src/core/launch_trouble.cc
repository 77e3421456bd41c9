#include "core/launch_trouble.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"

namespace carma::core {

std::map<TaskId, int> LaunchTrouble::Failed(Time now, const TaskRecord& task,
                                            const std::string& why) {
  last_failure_ = now;
  users_.insert(task.request.uid);
  const bool known = on();
  if (!known) ++row_[task.id];
  if (!known && row_.size() < kFailures) return {};
  why_ = why.empty() ? "no reason was given" : why;
  if (known) return {{task.id, 0}};
  next_trial_ = now + kTrialEvery;
  std::map<TaskId, int> innocent = std::exchange(row_, {});
  --innocent[task.id];  // this one was not counted yet
  return innocent;
}

// Of the starts that were decided on together the first may still have succeeded.
void LaunchTrouble::Works(Time launched) {
  if (launched <= last_failure_) return;
  row_.clear();
  users_.clear();
  why_.clear();
}

std::string LaunchTrouble::Text() const {
  if (!on()) return "";
  return fmt::format("Starting tasks fails ({}); one is tried every {}.",
                     base::Printable(why_, 300), base::FormatSpan(kTrialEvery));
}

}  // namespace carma::core
