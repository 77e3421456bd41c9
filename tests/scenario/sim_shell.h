// A minimal version of the simulator's shell: one core, a manually advanced clock, and a copy of
// the durable state.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/scheduler/waking_core.h"
#include "tests/scenario/scenario.h"

namespace carma::sim {

class SimShell : public ScenarioShell {
 public:
  base::Result<base::Unit> Open(const core::PolicyConfig& policy,
                                const std::vector<core::GpuInfo>& gpus,
                                const core::HostInfo& host) override;
  core::Time Now() const override { return now_; }
  base::Result<base::Unit> AdvanceTo(core::Time when) override;
  base::Result<base::Unit> Inject(const std::vector<core::Event>& events) override;
  base::Result<base::Unit> Restart() override;
  std::vector<TimedAction> TakeActions() override;
  const core::Scheduler& scheduler() const override { return core_->scheduler(); }

 private:
  void Record(std::vector<core::Action> actions);

  core::PolicyConfig policy_;
  std::vector<core::GpuInfo> gpus_;
  core::HostInfo host_;
  std::unique_ptr<core::WakingCore> core_;
  core::Time now_{};
  std::vector<TimedAction> actions_;
  std::map<core::TaskId, core::TaskRecord> kept_;  // unfinished tasks
  std::optional<core::ServerClosed> closed_;
  core::ReservationsChanged booked_;
  std::vector<core::Taken> ended_;  // usage by ended attempts
  // Drains are durable too. Keyed by GPU and by whether a rule set the drain.
  std::map<std::pair<core::GpuIndex, bool>, core::DrainRequested> drains_;
};

}  // namespace carma::sim
