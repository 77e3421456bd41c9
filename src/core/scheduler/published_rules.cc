#include "core/scheduler/published_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/scheduler/host_line.h"
#include "core/scheduler/line.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/rules.h"
#include "core/scheduler/scheduler_state.h"
#include "core/scheduler/waiting.h"

namespace carma::core {
namespace {

// August 2025: a round consists of a recovery scan, a pause, a search for idle GPUs, another pause,
// and the policy's decision. The monitor publishes a window's values when the next window begins.
constexpr Duration kThesisScan{5'000};
constexpr Duration kThesisPause{30'000};
constexpr Duration kThesisPublish{92'000};
// November 2025: a round consists of one second of sleep plus the time that its commands take.
constexpr Duration kV2Round{3'000};
// The November 2025 version subtracts this from the free memory of every GPU.
constexpr std::int64_t kV2LessFreeMib = 512;
// Limit imposed by MPS itself; the original sets none.
constexpr int kMpsClients = 48;
// After 1 000 s the original stops looking for a task's process ids.
constexpr Duration kV2SettleTimeout{1'000'000};
// The original keeps no GPUs for recovery, so PolicyConfig::recovery_patience must never run out.
constexpr Duration kNoPatience{std::chrono::hours(24 * 366)};

// The first time at or after `now` that is a whole number of steps after `from`.
Time NextOnGrid(Time from, Duration step, Time now) {
  if (from >= now) return from;
  const auto rounds = (now - from + step - Duration{1}) / step;
  return from + rounds * step;
}

// Common to both systems: decisions are made only in the rounds of a loop, crashed tasks are queued
// once a scan has found them, and only the head of a queue is considered.
class Loop : public Rules {
 public:
  Loop(State& core, Duration round) : Rules(core), round_(round) {}

  void Begin() override {
    if (!due_) {
      due_ = core_.now + round_;
    } else if (Scans() && !AnyoneWaits()) {
      // No wake-up was requested for scans that would have found no task, so such scans are skipped
      // here.
      due_ = NextOnGrid(*due_, round_, core_.now);
    }
  }
  std::optional<Time> NextDecision() const override {
    return !Scans() || AnyoneWaits() ? due_ : std::nullopt;
  }
  void Show(GpuView& view) const override { view.free_mib = core_.ledger.SeenFreeMib(view.index); }
  // An idle GPU is taken without checking its memory, because the last published values may still
  // include the task that has left.
  Need OnIdleGpu(Need need) const override {
    need.memory_mib.reset();
    return Rules::OnIdleGpu(std::move(need));
  }
  void Crashed(const TaskRecord& task) override { unscanned_.insert(task.id); }
  bool Overlooks(const TaskRecord& task) const override {
    return task.queue == QueueKind::kRecovery && unscanned_.contains(task.id);
  }
  bool HeadOnly(QueueKind) const override { return true; }
  Reason WhyNotYet(const TaskRecord& task, Time at) const override {
    if (Overlooks(task))
      return {ReasonCode::kPacing,
              "Crashed; waiting for the next recovery scan of the published rules."};
    return {ReasonCode::kPacing,
            fmt::format("The published rules require a pause; it ends in {} s.",
                        base::Seconds(std::max(due_.value_or(Time{}) - at, Duration{0})))};
  }

 protected:
  // True if the next round is a recovery scan.
  virtual bool Scans() const { return true; }
  bool Due() const { return *due_ <= core_.now; }
  void Pause(Duration span) { due_ = core_.now + span; }

  bool AnyoneWaits() const {
    return !core_.queue.Main().empty() || !core_.queue.Recovery().empty() ||
           std::ranges::any_of(unscanned_, [this](TaskId id) { return IsOverlooked(id); });
  }

  void Scan() {
    std::erase_if(unscanned_, [this](TaskId id) {
      const bool found = IsOverlooked(id);
      if (found) core::PutInQueue(core_, core_.tasks.at(id), Place::kEligible, {}, core_.now);
      return found || !core_.queue.PlaceOf(id);
    });
  }

  bool StartHeadOnIdle() {
    const std::set<QueueKey>& recovery = core_.queue.Recovery();
    const std::optional<TaskId> first =
        recovery.empty() ? core_.queue.Main().First() : recovery.begin()->task;
    if (!first) return false;
    TaskRecord& head = core_.tasks.at(*first);
    // Most rounds find no empty GPU. The ledger shows this without building the views of all GPUs.
    int empty_gpus = 0;
    for (std::uint32_t i = 0; i < core_.gpus.all.size(); ++i) {
      if (core_.ledger.ResidentsOf(GpuIndex{i}).empty()) ++empty_gpus;
    }
    if (empty_gpus < head.request->gpus) return false;
    return Start(head, core::ChooseIdle(core_, head, core::Views(core_, core_.now)));
  }

  bool StartHeadByPolicy() {
    const std::optional<TaskId> first = core_.queue.Main().First();
    if (!first) return false;
    TaskRecord& head = core_.tasks.at(*first);
    return Start(head, core::ChooseByPolicy(core_, head, core::Views(core_, core_.now)));
  }

  bool MayCollocate() const {
    return core_.mapper_entry->shares &&
           !(core_.config.recovery_blocks && !core_.queue.Recovery().empty());
  }

 private:
  bool IsOverlooked(TaskId id) const { return core_.queue.PlaceOf(id) == Place::kOverlooked; }
  bool Start(TaskRecord& task, std::optional<Choice> choice) {
    const HostNeed need = HostNeedOf(core_.config, task.request);
    if (!choice || core::IsLimited(core_, task) || !core::HostTakes(core_, task.id, need))
      return false;
    core::Start(core_, task, *std::move(choice));
    return true;
  }

  Duration round_;
  std::optional<Time> due_;  // time of the next round; empty before the first events
  // Crashed tasks that no scan has found yet. Tasks that have left the queue are dropped by the
  // next scan.
  std::set<TaskId> unscanned_;
};

class Thesis : public Loop {
 public:
  explicit Thesis(State& core) : Loop(core, kThesisScan) {}

  void Begin() override {
    if (!next_publication_) {
      next_publication_ = core_.now + kThesisPublish;
    } else if (*next_publication_ <= core_.now) {
      for (std::uint32_t i = 0; i < core_.gpus.all.size(); ++i) Publish(i);
      next_publication_ = NextOnGrid(*next_publication_, kThesisPublish, core_.now + Duration{1});
    }
    Loop::Begin();
  }

  void Decide() override {
    PublishFirstSamples();
    if (!Due()) return;
    switch (step_) {
      case Step::kScan:
        Scan();
        return AnyoneWaits() ? GoOn(Step::kIdleGpus, kThesisPause) : StartOver();
      case Step::kIdleGpus:
        return !StartHeadOnIdle() && MayCollocate() ? GoOn(Step::kPolicy, kThesisPause)
                                                    : StartOver();
      case Step::kPolicy:
        StartHeadByPolicy();
        return StartOver();
    }
  }

  void Show(GpuView& view) const override {
    const std::size_t i = Number(view.index);
    const bool told = i < published_.size() && published_[i];
    view.free_mib = told ? published_[i]->free_mib : 0;
    view.sm_active = told ? published_[i]->sm_active : std::nullopt;
  }

 private:
  enum class Step { kScan, kIdleGpus, kPolicy };
  struct Values {
    std::int64_t free_mib = 0;
    std::optional<double> sm_active;
  };

  bool Scans() const override { return step_ == Step::kScan; }
  void GoOn(Step step, Duration pause) {
    step_ = step;
    Pause(pause);
  }
  void StartOver() { GoOn(Step::kScan, kThesisScan); }

  void Publish(std::uint32_t gpu) {
    const std::optional<GpuSample>& sample = core_.gpus.all[gpu].sample;
    if (!sample) return;
    published_.resize(core_.gpus.all.size());
    published_[gpu] = {core_.ledger.SeenFreeMib(GpuIndex{gpu}), sample->sm_active};
  }
  // The first sample of each GPU is published immediately.
  void PublishFirstSamples() {
    published_.resize(core_.gpus.all.size());
    for (std::uint32_t i = 0; i < core_.gpus.all.size(); ++i) {
      if (!published_[i] && core_.gpus.all[i].sample_trouble.empty()) Publish(i);
    }
  }

  Step step_ = Step::kScan;
  std::optional<Time> next_publication_;
  std::vector<std::optional<Values>> published_;  // what the monitor last reported to the mapper
};

class V2 : public Loop {
 public:
  explicit V2(State& core) : Loop(core, kV2Round) {}

  void Decide() override {
    if (!Due()) return;
    Scan();
    if (!StartHeadOnIdle() && MayCollocate()) StartHeadByPolicy();
    Pause(kV2Round);
  }
};

}  // namespace

std::unique_ptr<Rules> MakeRules(State& core) {
  switch (core.config.pacing) {
    case Pacing::kThesis:
      return std::make_unique<Thesis>(core);
    case Pacing::kV2:
      return std::make_unique<V2>(core);
    case Pacing::kImmediate:
      break;
  }
  return std::make_unique<Rules>(core);
}

Result<PolicyConfig> AsPublished(std::string_view era, PolicyConfig base) {
  const MapperEntry* mapper = FindMapper(base.mapper);
  PolicyConfig config = std::move(base);
  config.idle_first = true;
  config.waive_on_idle = false;
  config.recovery = RecoveryMode::kExclusive;
  config.plateau_after.reset();
  config.min_gain.reset();
  config.max_slowdown.reset();
  config.backfill = 1;
  config.order = QueueOrder::kFifo;
  config.recovery_backoff = Duration{0};
  config.recovery_patience = kNoPatience;
  config.recovery_blocks = true;
  config.every_failure_is_oom = true;
  config.max_tasks_per_gpu = kMpsClients;
  if (mapper != nullptr && mapper->name == "round-robin") {
    config.sm_cap.reset();
    config.floor_mib = 0;
    config.use_given_memory = false;
  }
  config.streams_sm_cap = config.sm_cap;
  config.streams_tasks = config.max_tasks_per_gpu;
  if (era == "thesis") {
    config.pacing = Pacing::kThesis;
    config.settle = false;
    return config;
  }
  if (era == "v2") {
    config.pacing = Pacing::kV2;
    config.settle = true;
    config.settle_timeout = kV2SettleTimeout;
    // Where a policy requires free memory, raising the requirement has the same effect as
    // subtracting from the free memory.
    if (config.floor_mib > 0) config.floor_mib += kV2LessFreeMib;
    config.margin_mib += kV2LessFreeMib;
    return config;
  }
  return Invalid("published: unknown rules '{}', expected thesis or v2", era);
}

}  // namespace carma::core
