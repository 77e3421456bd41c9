#include "tests/scenario/sim_shell.h"

#include <utility>
#include <variant>

namespace carma::sim {

Result<Unit> SimShell::Open(const core::PolicyConfig& policy,
                            const std::vector<core::GpuInfo>& gpus, const core::HostInfo& host) {
  if (Result<Unit> valid = core::Validate(policy); !valid) return valid;
  policy_ = policy;
  gpus_ = gpus;
  host_ = host;
  core_ = std::make_unique<core::WakingCore>(policy_);
  return Inject({core::GpusDiscovered{gpus_}, core::HostDiscovered{host_}});
}

Result<Unit> SimShell::AdvanceTo(core::Time when) {
  while (core_->wake() && *core_->wake() <= when) {
    now_ = *core_->wake();
    Record(core_->Handle(now_, {core::WakeUp{}}));
  }
  now_ = when;
  return Unit{};
}

Result<Unit> SimShell::Inject(const std::vector<core::Event>& events) {
  for (const core::Event& event : events) {
    if (const auto* drain = std::get_if<core::DrainRequested>(&event)) {
      drains_[{drain->gpu, drain->by_rule}] = *drain;
    } else if (const auto* machine = std::get_if<core::HostDiscovered>(&event)) {
      host_ = machine->host;
    } else if (const auto* resume = std::get_if<core::ResumeRequested>(&event)) {
      drains_.erase({resume->gpu, true});
      if (!resume->by_rule) drains_.erase({resume->gpu, false});
    } else if (const auto* closed = std::get_if<core::ServerClosed>(&event)) {
      closed_ = *closed;
    } else if (std::holds_alternative<core::ServerOpened>(event)) {
      closed_.reset();
    } else if (const auto* told = std::get_if<core::ReservationsChanged>(&event)) {
      booked_ = *told;
    }
  }
  Record(core_->Handle(now_, events));
  return Unit{};
}

Result<Unit> SimShell::Restart() {
  core_ = std::make_unique<core::WakingCore>(policy_);
  std::vector<core::Event> events{core::GpusDiscovered{gpus_}, core::HostDiscovered{host_}};
  for (const auto& [place, drain] : drains_) events.emplace_back(drain);
  if (closed_) events.emplace_back(*closed_);
  events.emplace_back(booked_);
  for (const core::Taken& taken : ended_) events.emplace_back(core::AttemptRestored{taken});
  for (const auto& [id, record] : kept_) events.emplace_back(core::TaskRestored{record});
  Record(core_->Handle(now_, events));
  return Unit{};
}

std::vector<TimedAction> SimShell::TakeActions() {
  return std::exchange(actions_, {});
}

void SimShell::Record(std::vector<core::Action> actions) {
  for (core::Action& action : actions) {
    if (const auto* changed = std::get_if<core::TaskChanged>(&action)) {
      if (core::IsFinal(changed->record.state)) {
        kept_.erase(changed->record.id);
      } else {
        kept_[changed->record.id] = changed->record;
      }
    }
    if (const auto* ended = std::get_if<core::AttemptEnded>(&action))
      ended_.push_back(ended->taken);
    actions_.push_back({now_, std::move(action)});
  }
}

}  // namespace carma::sim
