// Where another system's rules may take the place of the scheduler's own. The functions of this
// class are the scheduler's own; another set overrides them (published_rules.cc). Private to core.
#pragma once

#include <memory>
#include <optional>

#include "core/scheduler/scheduler.h"

namespace carma::core {

class Rules {
 public:
  // core outlives the rules.
  explicit Rules(Scheduler::State& core) : core_(core) {}
  virtual ~Rules() = default;

  // Before the events of a moment are handled.
  virtual void Begin() {}
  // After them: starts what may start.
  virtual void Decide();
  // When to decide again though nothing happens; empty: events alone decide.
  virtual std::optional<Time> NextDecision() const { return std::nullopt; }

  // What guards and mappers see of a GPU, where it is not what the books say.
  virtual void Show(GpuView&) const {}
  // What a task needs of an idle GPU that is taken without asking the mapper.
  virtual Need OnIdleGpu(Need need) const;

  // A task waits for recovery from now on.
  virtual void Crashed(const TaskRecord&) {}
  // It is not in line yet, although nothing that people know of keeps it.
  virtual bool Overlooks(const TaskRecord&) const { return false; }
  // Only the first of that line may start.
  virtual bool HeadOnly(QueueKind line) const { return line == QueueKind::kMain; }
  // Why a task waits that is overlooked, or that enough GPUs would take.
  virtual Reason WhyNotYet(const TaskRecord& task, Time at) const;

 protected:
  Scheduler::State& core_;
};

// Those of config.pacing.
std::unique_ptr<Rules> MakeRules(Scheduler::State& core);

}  // namespace carma::core
