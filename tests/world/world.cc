// The simulated world around one engine: people, processes, GPUs, disk and time.
#include "tests/world/world.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <array>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/fake_clock.h"
#include "daemon/engine/engine.h"
#include "store/fake_vfs.h"
#include "task/describe/lease.h"
#include "task/shim/checkpoint_folder.h"
#include "tests/world/requests.h"
#include "tests/world/servers.h"

namespace carma::world {
namespace {

using core::TaskId;
using core::TaskState;

constexpr int kGpus = 3;
constexpr std::int64_t kGpuMib = 40'000;
constexpr int kMostTurns = 200;
constexpr std::size_t kMostUnfinished = 60;
constexpr int kLookUpEvery = 200;
// All waiting tasks must end within this many rounds.
constexpr int kLastRounds = 4'000;

// The processes of one attempt, which outlive the daemon.
struct Process {
  enum class State { kOrdered, kRuns, kEnded, kNeverBegan } state = State::kOrdered;
  bool asked_to_end = false;
  std::vector<core::GpuIndex> gpus;
  std::int64_t memory_mib = 0;
  int exit_code = 0;
  std::string last_words;
};
class World : public daemon::Engine::Host, public task::Launcher {
 public:
  explicit World(Plant plant) : plant_(plant) {
    std::string folder = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") +
                         std::string("/carma-world-XXXXXX");
    if (::mkdtemp(folder.data()) == nullptr) Note("no folder");
    state_dir_ = folder;
    Begin();
  }
  ~World() override {
    requests_.reset();
    engine_.reset();
    servers_.reset();
    store_.reset();
    std::filesystem::remove_all(state_dir_);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const std::string& violation() const { return violation_; }

  void Do(const Step& step) {
    Happen(step);
    Turns();
    if (engine_) Advance(base::Duration{0});  // work that a full disk has delayed is due now
    Check();
  }

  // Repairs everything and releases every hold. All waiting tasks must then end.
  void ComeToEnd() {
    disk_.space_left.reset();
    hung_.clear();
    cuda_broken_ = false;
    if (!engine_) Begin();
    for (std::uint32_t i = 0; i < kGpus; ++i) {
      engine_->Resume({core::GpuIndex{i}});
      engine_->Post(core::GpuHealthChanged{core::GpuIndex{i}, true, false, ""});
    }
    engine_->Open();
    retry_ = true;
    for (int round = 0; round < kLastRounds && violation_.empty(); ++round) {
      Turns();
      Check();
      if (engine_->scheduler().Tasks().empty()) return LookUpAll();
      for (const auto& [id, record] : engine_->scheduler().Tasks()) {
        if (record.held) engine_->Post(core::ReleaseRequested{id});
      }
      AnswerEstimates(kMostUnfinished);
      servers_->AnswerAll();
      for (auto& [key, process] : processes_) {
        if (process.state == Process::State::kOrdered) BeginProcess(key, process);
        if (process.state == Process::State::kRuns) EndProcess(key, process, 0, "");
      }
      Advance(base::Duration(1'000));
      Sample();
    }
    if (!violation_.empty() || engine_->scheduler().Tasks().empty()) return;
    const core::TaskRecord& waits = engine_->scheduler().Tasks().begin()->second;
    const core::Reason why = engine_->scheduler().ReasonFor(waits.id, clock_.Now());
    Note(fmt::format("task {} stays {} forever: {} {}", waits.id, core::TaskStateName(waits.state),
                     core::ReasonName(why.code), *why.text));
  }

 private:
  void Note(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

  // ---- the daemon's starts and exits ----

  void Begin() {
    base::Result<std::unique_ptr<store::Store>> store = store::Store::Open(state_dir_);
    if (!store) {
      if (!disk_.space_left) Note("cannot open the store: " + store.error().message);
      return;
    }
    store_ = *std::move(store);
    daemon::EngineOptions options;
    options.state_dir = state_dir_;
    options.machine_start = "this start";
    options.policy.settle = false;
    options.policy.max_node_failures = 1'000;
    servers_ = std::make_unique<Servers>([this](const std::string& what) { Note(what); });
    options.mps = servers_.get();
    options.share_by_mps = by_mps_;
    options.mps_dir = "/mps";
    engine_ = std::make_unique<daemon::Engine>(options, *store_, *this, clock_, *this);
    std::vector<core::GpuInfo> gpus;
    for (int i = 0; i < kGpus; ++i)
      gpus.push_back({.uuid = fmt::format("GPU-{}", i), .type = "A", .total_mib = kGpuMib});
    if (const auto started = engine_->Start(std::move(gpus)); !started) {
      if (!disk_.space_left) Note("the engine does not start: " + started.error().message);
      return Kill();
    }
    requests_ = std::make_unique<Requests>(*engine_, *store_, clock_);
    Sample();
    Turns();
  }
  void Kill() {
    requests_.reset();
    engine_.reset();
    servers_.reset();
    if (plant_ == Plant::kLostTask && store_ && store_->Begin()) {
      (void)store_->Prune(clock_.Now(), 1);
      (void)store_->Commit();
    }
    store_.reset();
    told_.clear();
    estimates_.clear();
    after_reading_.clear();
    tried_.clear();
    wake_.reset();
    retry_ = turn_ = false;
  }

  void Turns() {
    if (!engine_) return;
    if (std::exchange(retry_, false)) turn_ = true;
    for (int turns = 0; turns < kMostTurns && (turn_ || !told_.empty()); ++turns) {
      turn_ = false;
      engine_->PollLauncher();
      engine_->Turn();
    }
    if (turn_ && engine_->store_trouble().empty()) Note("the engine never becomes idle");
  }

  // ---- events ----

  void Happen(const Step& step) {
    const std::string& verb = step.verb;
    if (verb == "kill") return Kill(), Begin();
    if (verb == "method") {  // restart, to share GPUs through MPS or streams
      by_mps_ = step.a % 3 != 0;
      return Kill(), Begin();
    }
    if (verb == "back") {  // set the machine's clock back while the daemon is away
      Kill();
      clock_ = base::FakeClock(
          std::max(base::FromMs(1'000'000), clock_.Now() - base::Duration(step.a % 600'000)));
      return Begin();
    }
    if (verb == "full") return void(disk_.space_left = static_cast<std::int64_t>(step.a % 60'000));
    if (verb == "space") {
      disk_.space_left.reset();
      retry_ = true;
      return engine_ ? void() : Begin();
    }
    if (!engine_) return Begin();
    if (verb == "submit") return Submit(step);
    if (verb == "ask") {
      requests_->Ask(step.a, step.b);
      if (const std::string wrong = requests_->Wrong(); !wrong.empty()) Note(wrong);
      return;
    }
    if (verb == "second") {
      if (store::Store::Open(state_dir_)) Note("a second daemon can open the same database");
      return;
    }
    if (verb == "hang") return void(hung_.insert(step.a % kGpus));
    if (verb == "answer") return hung_.clear();
    if (verb == "broken") return void(cuda_broken_ = true);
    if (verb == "repaired") return void(cuda_broken_ = false);
    if (verb == "serve") return servers_->AnswerAll();
    if (verb == "refuse") return servers_->Answer(false);
    if (verb == "estimate") return AnswerEstimates(1 + step.a % 4);
    if (verb == "sample") return Sample();
    if (verb == "advance") return Advance(base::Duration(1 + step.a % 120'000));
    if (verb == "jump") return Advance(base::Duration(86'400'000));
    if (verb == "begin" || verb == "exit" || verb == "fail") return OfProcess(step);
    if (verb == "close") return engine_->Close({"closed", clock_.Now() + base::Duration(60'000)});
    if (verb == "open") return engine_->Open();
    const core::GpuIndex gpu{static_cast<std::uint32_t>(step.a % kGpus)};
    if (verb == "drain") return engine_->Drain({gpu, "drained", step.b % 2 == 0});
    if (verb == "resume") return engine_->Resume({gpu});
    if (verb == "sick") return engine_->Post(core::GpuHealthChanged{gpu, false, false, "sick"});
    if (verb == "well") return engine_->Post(core::GpuHealthChanged{gpu, true, false, ""});
    ChangeTask(step);
  }

  void Submit(const Step& step) {
    if (engine_->scheduler().Tasks().size() > kMostUnfinished) return;
    task::TaskSpec spec;
    spec.name = "t";
    spec.command = {"true"};
    spec.workdir = "/work";
    spec.stdout_path = "/dev/null";
    spec.gpus = static_cast<int>(step.a % 7 == 0 ? 2 : step.a % 11 == 0 ? 0 : 1);
    spec.exclusive = step.a % 5 == 0;
    spec.held = step.b % 13 == 0;
    spec.priority = -static_cast<std::int64_t>(step.b % 3);
    if (step.b % 4 == 0) spec.time_limit = base::Duration(60'000 + static_cast<int>(step.b));
    if (step.b % 19 == 0) spec.lease = task::TextOf({{4711, 1}, "this start"});
    if (step.b % 17 == 0) spec.begin = clock_.Now() + base::Duration(90'000);
    if (step.a % 9 == 0 && !accepted_.empty()) {
      core::Dependency on;
      on.task =
          *std::next(accepted_.begin(), static_cast<std::ptrdiff_t>(step.b % accepted_.size()));
      spec.dependencies = {on};
    }
    const auto uid = static_cast<std::uint32_t>(1000 + step.b % 3);
    engine_->Submit({spec}, {uid, uid, fmt::format("user{}", uid)},
                    [this](const base::Result<daemon::Submitted>& done) {
                      if (done) accepted_.insert(done->first);
                    });
  }

  void ChangeTask(const Step& step) {
    const core::TaskRecords& tasks = engine_->scheduler().Tasks();
    if (tasks.empty()) return;
    const core::TaskRecord& task =
        std::next(tasks.begin(), static_cast<std::ptrdiff_t>(step.a % tasks.size()))->second;
    const TaskId id = task.id;
    const bool waits = !core::HoldsGpus(task.state);
    if (step.verb == "cancel") return engine_->Post(core::CancelRequested{id, "a person"});
    if (step.verb == "priority")
      return engine_->Post(core::PriorityChanged{id, -static_cast<std::int64_t>(step.b % 5)});
    if (step.verb == "hold" && waits) return engine_->Post(core::HoldRequested{id});
    if (step.verb == "release" && waits) return engine_->Post(core::ReleaseRequested{id});
    if (step.verb == "requeue" && task.state != TaskState::kStopping)
      engine_->Requeue(id, "requeue, by a person", [](const auto&) {});
  }

  void AnswerEstimates(std::size_t most) {
    for (std::size_t i = 0; i < most && !estimates_.empty(); ++i) {
      daemon::EstimateResult result;
      result.id = result.forecast.task = estimates_.front();
      estimates_.pop_front();
      const std::uint64_t number = core::Number(result.id);
      if (number % 6 != 0)
        result.estimate =
            core::Estimate{static_cast<std::int64_t>(2'000 + number * 997 % 30'000), "given"};
      engine_->TakeEstimate(std::move(result));
    }
  }

  // While the driver hangs on a GPU, that GPU has no readings.
  void Sample() {
    for (std::uint32_t i = 0; i < kGpus; ++i) {
      if (hung_.contains(i)) continue;
      core::GpuSample sample;
      sample.taken = clock_.Now();
      sample.window_from = sample.taken - base::Duration(60'000);
      sample.sm_active = 0.1;
      for (const auto& [key, process] : processes_) {
        const bool there = process.state == Process::State::kRuns &&
                           std::ranges::find(process.gpus, core::GpuIndex{i}) != process.gpus.end();
        if (!there) continue;
        sample.tasks_mib.emplace_back(key.first, process.memory_mib);
        sample.used_mib += process.memory_mib;
      }
      engine_->Post(core::GpuSampled{core::GpuIndex{i}, sample});
    }
    for (const auto& call : std::exchange(after_reading_, {})) call();
    for (const auto& call : std::exchange(tried_, {}))
      call(cuda_broken_ ? "CUDA does not work there: cuInit" : "");
  }

  // Advances the clock and wakes the engine at the times that it requested.
  void Advance(base::Duration span) {
    const base::Time to = clock_.Now() + span;
    while (wake_ && *wake_ <= to) {
      clock_.MoveTo(std::max(clock_.Now(), *std::exchange(wake_, std::nullopt)));
      if (plant_ == Plant::kLostWakeUp) continue;
      engine_->Post(core::WakeUp{});
      Turns();
      if (!engine_) return;
    }
    clock_.MoveTo(to);
  }

  // ---- processes ----

  void OfProcess(const Step& step) {
    const auto wanted = step.verb == "begin" ? Process::State::kOrdered : Process::State::kRuns;
    std::vector<std::map<Key, Process>::iterator> those;
    for (auto at = processes_.begin(); at != processes_.end(); ++at) {
      if (at->second.state == wanted) those.push_back(at);
    }
    if (those.empty()) return;
    auto& [key, process] = *those[step.a % those.size()];
    if (step.verb == "begin" && step.b % 15 == 0) {
      process.state = Process::State::kNeverBegan;
      return Tell({.kind = task::ShimEventKind::kLaunchFailed,
                   .id = key.first,
                   .attempt = key.second,
                   .text = "no memory",
                   .retryable = step.b % 2 == 0});
    }
    if (step.verb == "begin") return BeginProcess(key, process);
    if (step.verb == "exit") return EndProcess(key, process, 0, "");
    static constexpr std::array kWords{"torch.cuda.OutOfMemoryError: CUDA out of memory.", "error",
                                       "RuntimeError: CUDA error: system not yet initialized",
                                       "CUDA error: an illegal memory access was encountered"};
    EndProcess(key, process, 1, kWords[step.b % kWords.size()]);
  }
  void BeginProcess(const Key& key, Process& process) {
    process.state = Process::State::kRuns;
    Tell({.kind = task::ShimEventKind::kStarted,
          .id = key.first,
          .attempt = key.second,
          .process = {static_cast<pid_t>(core::Number(key.first)), 1}});
  }
  void EndProcess(const Key& key, Process& process, int code, const std::string& words) {
    process.state = Process::State::kEnded;
    process.exit_code = process.asked_to_end ? 143 : code;
    process.last_words = words;
    TellEnd(key, process);
  }
  void TellEnd(const Key& key, const Process& process) {
    if (plant_ == Plant::kKeptClaim && core::Number(key.first) % 5 == 0) return;
    Tell({.kind = task::ShimEventKind::kExited,
          .id = key.first,
          .attempt = key.second,
          .exit_code = process.exit_code,
          .stderr_tail = process.last_words});
  }
  void Tell(task::ShimEvent event) {
    if (engine_) told_.push_back(std::move(event));
  }

  // task::Launcher
  void Start(task::LaunchOrder order) override {
    const Key key{order.id, order.attempt};
    if (processes_.contains(key) || !started_.insert(key).second)
      return Note(fmt::format("attempt {} of task {} is started twice", key.second, key.first));
    const base::Result<store::StoredTask> row = store_->Get(order.id);
    if (!row || row->record.attempt->number != order.attempt)
      return Note(fmt::format("task {} is started before its start is durable", order.id));
    Process process;
    for (const core::Placement& at : row->record.attempt->placement) process.gpus.push_back(at.gpu);
    process.memory_mib = 1'000;
    processes_[key] = process;
    CheckFolder(order);
    if (plant_ == Plant::kDoubleStart && core::Number(order.id) % 7 == 0) Start(order);
  }
  void CheckFolder(const task::LaunchOrder& order) {
    task::ShimOrder shim;
    static_cast<task::LaunchOrder&>(shim) = order;
    if (plant_ == Plant::kSharedFolder) shim.id = TaskId{core::Number(order.id) / 2 + 1};
    const auto [at, fresh] = folders_.try_emplace(task::CheckpointFolder(shim), order.id);
    if (!fresh && at->second != order.id)
      Note(fmt::format("tasks {} and {} share {}", at->second, order.id, at->first));
  }
  void Stop(TaskId id, int attempt, const std::string&) override {
    const auto at = processes_.find({id, attempt});
    if (at == processes_.end()) return;
    at->second.asked_to_end = true;
    if (at->second.state == Process::State::kOrdered) at->second.state = Process::State::kRuns;
    if (at->second.state == Process::State::kRuns) EndProcess(at->first, at->second, 143, "");
  }
  void Warn(TaskId, int) override {}
  void AskToSave(TaskId, int, base::Time) override {}
  void Adopt(const task::KnownAttempt& known) override {
    const auto at = processes_.find({known.id, known.number});
    if (at == processes_.end()) {
      started_.insert({known.id, known.number});  // from now on, this attempt must never start
      return Tell2({.kind = task::ShimEventKind::kLaunchFailed,
                    .id = known.id,
                    .attempt = known.number,
                    .text = "it never began",
                    .retryable = true,
                    .interrupted = true});
    }
    switch (at->second.state) {
      case Process::State::kOrdered:
        return;  // the attempt's shim reports the end
      case Process::State::kNeverBegan:
        return Tell2({.kind = task::ShimEventKind::kLaunchFailed,
                      .id = known.id,
                      .attempt = known.number,
                      .text = "no memory",
                      .retryable = true});
      case Process::State::kEnded:
      case Process::State::kRuns:
        Tell2({.kind = task::ShimEventKind::kStarted,
               .id = known.id,
               .attempt = known.number,
               .process = {static_cast<pid_t>(core::Number(known.id)), 1}});
        if (at->second.state == Process::State::kEnded) TellEnd2(at->first, at->second);
    }
  }
  // Only stores the event, because this is also called while the engine is being constructed.
  void Tell2(task::ShimEvent event) { told_.push_back(std::move(event)); }
  void TellEnd2(const Key& key, const Process& process) {
    Tell2({.kind = task::ShimEventKind::kExited,
           .id = key.first,
           .attempt = key.second,
           .exit_code = process.exit_code,
           .stderr_tail = process.last_words});
  }
  void Forget(TaskId id, int attempt, const std::string&) override {
    const auto at = processes_.find({id, attempt});
    if (at == processes_.end()) return;
    if (at->second.state == Process::State::kRuns)
      Note(fmt::format("task {} is forgotten while it is running", id));
    processes_.erase(at);
  }
  int PollFd() const override { return -1; }
  void Poll(const Sink& sink) override {
    for (const task::ShimEvent& event : std::exchange(told_, {})) sink(event);
  }

  // Engine::Host
  void RequestTurn() override { turn_ = true; }
  void RequestEstimates(std::vector<daemon::EstimateJob> jobs) override {
    for (const daemon::EstimateJob& job : jobs) estimates_.push_back(job.id);
  }
  void WakeAt(base::Time when) override { wake_ = when; }
  void RetryTurnLater() override { retry_ = true; }
  void TaskChanged(const core::TaskChanged& change) override {
    const core::TaskRecord& record = change.record;
    const auto [at, fresh] = ended_.try_emplace(record.id, record.state);
    if (!core::IsFinal(record.state)) {
      if (!fresh && core::IsFinal(at->second))
        Note(fmt::format("task {} was {} and is now {}", record.id, core::TaskStateName(at->second),
                         core::TaskStateName(record.state)));
      ended_.erase(at);
    }
  }
  std::optional<double> RecentFullness(core::GpuIndex) override { return 0.5; }
  std::vector<int> RecentXids(core::GpuIndex, base::Time) override { return {}; }
  void AfterNextReading(std::function<void()> call) override {
    after_reading_.push_back(std::move(call));
  }
  void TryCuda(const std::vector<core::GpuIndex>&,
               std::function<void(const std::string&)> call) override {
    tried_.push_back(std::move(call));
  }

  // ---- invariants ----

  void Check() {
    if (!engine_ || !violation_.empty()) return;
    const core::Scheduler& scheduler = engine_->scheduler();
    if (const auto wrong = scheduler.CheckBooks()) return Note(*wrong);
    CheckStored();
    // While changes wait to be written, the records cannot agree with the processes.
    if (!engine_->store_trouble().empty() || retry_) return;
    for (const auto& [key, process] : processes_) CheckProcess(key, process);
    for (const Key& key : servers_->clients()) CheckClient(key);
    for (const auto& [id, record] : scheduler.Tasks()) CheckTask(record);
  }
  // Lost rows stay lost, so counting rows after each step is enough. Tasks are looked up by number
  // only every kLookUpEvery steps and at the end.
  void CheckStored() {
    const auto counts = store_->Counts();
    if (!counts) return Note("the tasks cannot be counted: " + counts.error().message);
    std::int64_t rows = 0;
    for (const auto& [state, count] : *counts) rows += count;
    if (std::cmp_less(rows, accepted_.size()))
      Note(fmt::format("{} tasks were accepted, but {} are stored", accepted_.size(), rows));
    if (++checks_ % kLookUpEvery == 0) LookUpAll();
  }
  void LookUpAll() {
    for (const TaskId id : accepted_) {
      const auto state = store_->StateOf(id);
      if (!state || !*state) return Note(fmt::format("task {} was accepted but is lost", id));
    }
  }
  void CheckProcess(const Key& key, const Process& process) {
    if (process.state != Process::State::kRuns && process.state != Process::State::kEnded) return;
    const core::TaskRecord* record = engine_->scheduler().Find(key.first);
    const bool held = record != nullptr && core::HoldsGpus(record->state) &&
                      record->attempt->number == key.second;
    if (process.state == Process::State::kRuns && !held)
      Note(fmt::format("task {} is running but holds nothing in the core's records", key.first));
    const bool judged = after_reading_.empty() && tried_.empty() && !servers_->Terminating();
    if (process.state == Process::State::kEnded && held && judged)
      Note(fmt::format("task {} has ended but keeps its claim", key.first));
  }
  void CheckClient(const Key& key) {
    const core::TaskRecord* record = engine_->scheduler().Find(key.first);
    if (record == nullptr || !core::HoldsGpus(record->state) ||
        record->attempt->number != key.second)
      Note(fmt::format("task {} holds no GPU but is kept by its MPS server", key.first));
  }
  void CheckTask(const core::TaskRecord& record) {
    const TaskId id = record.id;
    if (core::HoldsGpus(record.state)) {
      const Key key{id, record.attempt->number};
      if (!processes_.contains(key) && !servers_->IsAsked(key))
        Note(fmt::format("task {} is {} without a process", id, core::TaskStateName(record.state)));
      return;
    }
    if (record.state != TaskState::kQueued) return;
    core::Reason why = engine_->scheduler().ReasonFor(id, clock_.Now());
    if (plant_ == Plant::kFalseReason && core::Number(id) % 4 == 0)
      why.code = core::ReasonCode::kHeld;
    if (why.code == core::ReasonCode::kNone)
      Note(fmt::format("task {} is waiting without a reason", id));
    if ((why.code == core::ReasonCode::kHeld) != record.held)
      Note(
          fmt::format("task {} waits ({}), held: {}", id, core::ReasonName(why.code), record.held));
    const bool begins_later = record.request->begin && *record.request->begin > clock_.Now();
    if (why.code == core::ReasonCode::kBeginTime && !begins_later)
      Note(fmt::format("task {} waits for a time that has passed", id));
    if (why.code == core::ReasonCode::kDraining && !engine_->closing() && !AnyDrained())
      Note(fmt::format("task {} waits (Draining), but nothing is drained", id));
  }
  bool AnyDrained() {
    return std::ranges::any_of(engine_->scheduler().Gpus(clock_.Now()),
                               [](const core::GpuView& gpu) { return gpu.drained; });
  }

  const Plant plant_;
  std::string state_dir_;
  std::string violation_;
  store::FakeVfs disk_;
  base::FakeClock clock_{base::FromMs(1'000'000)};
  std::map<Key, Process> processes_;
  std::set<Key> started_;
  std::map<std::string, TaskId> folders_;
  std::set<TaskId> accepted_;
  std::map<TaskId, TaskState> ended_;
  std::set<std::uint64_t> hung_;  // GPUs whose driver does not respond
  bool cuda_broken_ = false;
  bool by_mps_ = true;
  // The following members are rebuilt each time the daemon starts.
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Servers> servers_;
  std::unique_ptr<daemon::Engine> engine_;
  std::unique_ptr<Requests> requests_;
  std::deque<TaskId> estimates_;
  std::vector<std::function<void()>> after_reading_;
  std::vector<std::function<void(const std::string&)>> tried_;
  std::vector<task::ShimEvent> told_;
  std::optional<base::Time> wake_;
  bool turn_ = false, retry_ = false;
  int checks_ = 0;
};

}  // namespace

std::optional<Violation> Play(const std::vector<Step>& steps, Plant plant) {
  World world(plant);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    world.Do(steps[i]);
    if (!world.violation().empty()) return Violation{world.violation(), i};
  }
  world.ComeToEnd();
  if (!world.violation().empty()) return Violation{world.violation(), steps.size()};
  return std::nullopt;
}

}  // namespace carma::world
