// When decisions are made: at every event, or in the loop of the original (SPEC of the published
// system, section 4) between its pauses.
#include <algorithm>

#include "core/scheduler_state.h"

namespace carma::core {
namespace {

// August 2025: a recovery scan, then a pause before idle GPUs are looked for, another before the
// policy decides; the monitor publishes the values of a window when the next one begins.
constexpr Duration kThesisScan{5'000};
constexpr Duration kThesisPause{30'000};
constexpr Duration kThesisPublish{92'000};
// November 2025: one round takes a second of sleep and the time of its commands.
constexpr Duration kV2Round{3'000};

Duration Round(Pacing pacing) {
  return pacing == Pacing::kThesis ? kThesisScan : kV2Round;
}

// The first time at or after `now` on the grid of `from` and `step`.
Time NextOnGrid(Time from, Duration step, Time now) {
  if (from >= now) return from;
  const auto rounds = (now - from + step - Duration{1}) / step;
  return from + rounds * step;
}

}  // namespace

bool Scheduler::State::AnyoneWaits() const {
  return !queue.Line(QueueKind::kMain).empty() || !queue.Line(QueueKind::kRecovery).empty() ||
         !queue.Unscanned().empty();
}

void Scheduler::State::BeginPace() {
  if (config.pacing == Pacing::kImmediate) return;
  if (!pace.begun) {
    pace = {.due = now + Round(config.pacing), .publish = now + kThesisPublish, .begun = true};
    return;
  }
  if (pace.publish <= now) {
    Publish();
    pace.publish = NextOnGrid(pace.publish, kThesisPublish, now + Duration{1});
  }
  // Scans that found nobody need no wake-up; they are made up for here.
  if (pace.step == Pace::Step::kScan && !AnyoneWaits()) {
    pace.due = NextOnGrid(pace.due, Round(config.pacing), now);
  }
}

void Scheduler::State::Publish() {
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    if (!gpus[i].sample) continue;
    gpus[i].published_free_mib = ledger.AccountOf(GpuIndex{i}).measured_mib;
    gpus[i].published_sm_active = gpus[i].sample->sm_active;
  }
}

void Scheduler::State::Scan() {
  const std::set<TaskId> found = queue.Unscanned();
  for (const TaskId id : found) {
    LifeOf(id).unscanned = false;
    queue.Put(tasks.at(id), Place::kEligible);
  }
}

bool Scheduler::State::StartHeadOnIdle() {
  const std::set<QueueKey>& recovery = queue.Line(QueueKind::kRecovery);
  const std::set<QueueKey>& line = recovery.empty() ? queue.Line(QueueKind::kMain) : recovery;
  if (line.empty()) return false;
  TaskRecord& head = tasks.at(line.begin()->task);
  // Most rounds find none: that is told from the ledger alone.
  int empty_gpus = 0;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    if (ledger.ResidentsOf(GpuIndex{i}).empty()) ++empty_gpus;
  }
  if (empty_gpus < head.request.gpus) return false;
  std::optional<Choice> choice = ChooseIdle(head, Views(now));
  if (!choice) return false;
  Start(head, *std::move(choice));
  return true;
}

bool Scheduler::State::StartHeadByPolicy() {
  const std::set<QueueKey>& line = queue.Line(QueueKind::kMain);
  if (line.empty()) return false;
  TaskRecord& head = tasks.at(line.begin()->task);
  std::optional<Choice> choice = ChooseByPolicy(head, Views(now));
  if (!choice) return false;
  Start(head, *std::move(choice));
  return true;
}

void Scheduler::State::DecidePaced() {
  if (pace.due > now) return;
  const auto may_collocate = [this] {
    return mapper_name != "exclusive" &&
           !(config.recovery_blocks && !queue.Line(QueueKind::kRecovery).empty());
  };
  if (config.pacing == Pacing::kV2) {
    Scan();
    if (!StartHeadOnIdle() && may_collocate()) StartHeadByPolicy();
    pace.due = now + kV2Round;
    return;
  }
  switch (pace.step) {
    case Pace::Step::kScan: {
      Scan();
      const bool waiting = AnyoneWaits();
      pace.step = waiting ? Pace::Step::kIdleGpus : Pace::Step::kScan;
      pace.due = now + (waiting ? kThesisPause : kThesisScan);
      return;
    }
    case Pace::Step::kIdleGpus: {
      const bool on = !StartHeadOnIdle() && may_collocate();
      pace.step = on ? Pace::Step::kPolicy : Pace::Step::kScan;
      pace.due = now + (on ? kThesisPause : kThesisScan);
      return;
    }
    case Pace::Step::kPolicy:
      StartHeadByPolicy();
      pace.step = Pace::Step::kScan;
      pace.due = now + kThesisScan;
      return;
  }
}

void Scheduler::State::Decide() {
  if (config.pacing != Pacing::kImmediate) return DecidePaced();
  UpdateReservation();
  DecideNow();
}

void Scheduler::State::AskForWake() {
  // Settling, stale samples and reservations need none: they matter only while samples arrive, and
  // each sample is a decision.
  std::optional<Time> next = queue.NextDue();
  const auto consider = [&next](Time when) { next = next ? std::min(*next, when) : when; };
  if (const auto limit = deadlines.Next()) consider(*limit);
  if (config.pacing != Pacing::kImmediate && (pace.step != Pace::Step::kScan || AnyoneWaits())) {
    consider(pace.due);
  }
  if (wake && *wake <= now) wake.reset();
  if (!next || next == wake) return;
  wake = next;
  actions.emplace_back(WakeAt{*next});
}

}  // namespace carma::core
