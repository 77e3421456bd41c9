// Scheduling rules that differ between CARMA and the published system. This class implements
// CARMA's own rules, and published_rules.cc overrides them. Private to core.
#pragma once

#include <memory>
#include <optional>

#include "core/scheduler/scheduler.h"

namespace carma::core {

class Rules {
 public:
  // `core` must outlive the rules.
  explicit Rules(Scheduler::State& core) : core_(core) {}
  virtual ~Rules() = default;

  // Called before simultaneous events are handled.
  virtual void Begin() {}
  // Called after simultaneous events. Starts the tasks that may start.
  virtual void Decide();
  // When the next decision is due even if no event arrives, or empty if only events trigger
  // decisions.
  virtual std::optional<Time> NextDecision() const { return std::nullopt; }

  // Adjusts a GPU's view before guards and mappers see it.
  virtual void Show(GpuView&) const {}
  // Memory requirement of a task that is placed on an idle GPU without consulting the mapper.
  virtual Need OnIdleGpu(Need need) const;

  // Called when a task enters the recovery queue.
  virtual void Crashed(const TaskRecord&) {}
  // True if these rules keep the task out of the queue for now.
  virtual bool Overlooks(const TaskRecord&) const { return false; }
  // True if only the head of the given queue may start.
  virtual bool HeadOnly(QueueKind line) const { return line == QueueKind::kMain; }
  // Why a task waits even though enough GPUs would take it. Also called for tasks that Overlooks
  // keeps out of the queue.
  virtual Reason WhyNotYet(const TaskRecord& task, Time at) const;

 protected:
  Scheduler::State& core_;
};

// Creates the rules that PolicyConfig::pacing selects.
std::unique_ptr<Rules> MakeRules(Scheduler::State& core);

}  // namespace carma::core
