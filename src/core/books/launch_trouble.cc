#include "core/books/launch_trouble.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "core/values/task.h"

namespace carma::core {

std::map<TaskId, int> LaunchTrouble::Failed(Time now, const TaskRecord& task,
                                            const std::string& why, bool certain) {
  last_failure_ = now;
  const bool known = on();
  if (!known) {
    std::erase_if(recent_, [&](const auto& each) { return each.second.last < now - kWindow; });
    if (recent_.empty()) users_.clear();
    Failures& failures = recent_[task.id];
    ++failures.count;
    failures.last = now;
  }
  users_.insert(task.request->uid);
  if (!known && !certain && recent_.size() < kFailures) return {};
  why_ = why.empty() ? "no reason was given" : why;
  if (known) return {{task.id, 0}};
  next_trial_ = now + kTrialEvery;
  std::map<TaskId, int> innocent;
  for (const auto& [id, failures] : std::exchange(recent_, {})) innocent[id] = failures.count;
  --innocent[task.id];  // TaskRecord::launch_failures does not include this failure yet
  return innocent;
}

// If several starts are decided together, some may succeed while others fail. Only a start decided
// after the last failure proves that starts work again.
void LaunchTrouble::Works(Time launched) {
  if (!on() || launched <= last_failure_) return;
  users_.clear();
  why_.clear();
}

std::string LaunchTrouble::Text() const {
  if (!on()) return "";
  return fmt::format("Tasks are failing to start ({}); one start is attempted every {}.",
                     base::Printable(why_, 300), base::FormatSpan(kTrialEvery));
}

}  // namespace carma::core
