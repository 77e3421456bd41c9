#include "core/forecast/future.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/policy/gpu_links.h"

namespace carma::core {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNotThere = -kNever;
constexpr double kOfMeanEnd = 0.5;
// Remaining work below this is a rounding error and counts as done.
constexpr double kDoneS = 1e-6;

struct Run {
  double left_s = 0;
  double speed = 1;  // its speed on its slowest GPU
  std::vector<std::size_t> gpus;
  std::vector<std::int64_t> promised_mib;
  std::vector<double> speeds;
};

struct Gpu {
  GpuView view;
  std::vector<Neighbour> residents;
  std::vector<std::size_t> runs;  // indices of the runs on this GPU
};

// One simulated sequence of starts and ends.
class Course {
 public:
  Course(const PolicyConfig& config, const Mapper& mapper, std::span<const GpuView> views,
         std::span<const FutureRun> running, std::span<const FutureTask> line)
      : config_(config),
        mapper_(mapper),
        line_(line),
        waits_(line.size(), true),
        scores_(line.size(), std::vector<double>(views.size(), kNotThere)),
        may_be_first_(line.size()),
        stale_(views.size(), true) {
    for (const GpuView& view : views) gpus_.push_back({.view = view});
    for (const FutureRun& each : running)
      Join(each.load, each.left_s, each.gpus, each.promised_mib);
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      // Foreign processes are assumed to stay.
      for (std::size_t at = gpus_[i].residents.size(); at < views[i].residents.size(); ++at)
        gpus_[i].residents.push_back(views[i].residents[at]);
      Refresh(i);
    }
  }

  void Start(std::size_t task, const std::vector<std::size_t>& gpus) {
    const FutureTask& starting = line_[task];
    waits_[task] = false;
    const std::int64_t most_mib = starting.need.memory_mib.value_or(0);
    std::vector<std::int64_t> promised_mib(gpus.size(),
                                           starting.need.others_mib.value_or(most_mib));
    promised_mib.front() = most_mib;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      GpuView& view = gpus_[gpus[i]].view;
      view.free_mib = std::max<std::int64_t>(0, view.free_mib - promised_mib[i]);
      view.exclusive_task |= starting.need.exclusive;
      view.sm_shares += starting.need.sm_share.value_or(0);
      ++view.tasks;
    }
    Join(starting.need.load, starting.alone_s, gpus, promised_mib);
    for (const std::size_t gpu : gpus) Refresh(gpu);
  }

  void StartWhatFits() {
    while (StartBest()) {
    }
  }

  double PlayToTheEnd() {
    std::size_t left = active_ + static_cast<std::size_t>(std::ranges::count(waits_, true));
    const auto all = static_cast<double>(left);
    double ends_s = 0;
    while (left > 0) {
      if (active_ == 0) return kNever;
      left -= EndNext(ends_s);
      StartWhatFits();
    }
    return now_s_ + kOfMeanEnd * ends_s / std::max(1.0, all);
  }

 private:
  void Join(const Neighbour& load, double left_s, const std::vector<std::size_t>& gpus,
            const std::vector<std::int64_t>& promised_mib) {
    for (const std::size_t gpu : gpus) {
      // In `residents`, runs come before foreign processes.
      std::vector<Neighbour>& residents = gpus_[gpu].residents;
      residents.insert(residents.begin() + static_cast<std::ptrdiff_t>(gpus_[gpu].runs.size()),
                       OnPart(load, gpus_[gpu].view));
      gpus_[gpu].runs.push_back(runs_.size());
    }
    runs_.push_back({.left_s = left_s,
                     .gpus = gpus,
                     .promised_mib = promised_mib,
                     .speeds = std::vector<double>(gpus.size(), 1.0)});
    ++active_;
  }

  // Updates a GPU after its tasks have changed.
  void Refresh(std::size_t index) {
    Gpu& gpu = gpus_[index];
    gpu.view.residents = gpu.residents;
    gpu.view.outlook.Forget();
    const double saturation = SaturationOf({}, SharingOn(config_, gpu.view.mig));
    const ThroughputEstimate outlook = ThroughputOf(gpu.residents, nullptr, saturation);
    gpu.view.delivered = outlook.delivered;
    gpu.view.slowest = outlook.slowest;
    stale_[index] = true;
    SlowdownsOf(gpu.residents, saturation, slowdowns_);
    for (std::size_t i = 0; i < gpu.runs.size(); ++i) {
      Run& run = runs_[gpu.runs[i]];
      const auto part = std::ranges::find(run.gpus, index) - run.gpus.begin();
      run.speeds[static_cast<std::size_t>(part)] = gpu.view.pace / slowdowns_[i];
      run.speed = std::ranges::min(run.speeds);
    }
  }

  // Advances to the time when the next task ends. Returns the number of tasks that end then.
  std::size_t EndNext(double& ends_s) {
    double step_s = kNever;
    for (const Run& run : runs_) {
      if (!run.gpus.empty()) step_s = std::min(step_s, run.left_s / run.speed);
    }
    now_s_ += step_s;
    std::size_t ended = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      Run& run = runs_[i];
      if (run.gpus.empty()) continue;
      run.left_s -= step_s * run.speed;
      if (run.left_s > kDoneS) continue;
      Leave(i);
      ends_s += now_s_;
      ++ended;
    }
    active_ -= ended;
    return ended;
  }

  void Leave(std::size_t index) {
    Run& run = runs_[index];
    const std::vector<std::size_t> left = std::exchange(run.gpus, {});
    for (std::size_t i = 0; i < left.size(); ++i) {
      Gpu& gpu = gpus_[left[i]];
      const auto at = std::ranges::find(gpu.runs, index);
      gpu.residents.erase(gpu.residents.begin() + (at - gpu.runs.begin()));
      gpu.runs.erase(at);
      gpu.view.free_mib = std::min(gpu.view.total_mib, gpu.view.free_mib + run.promised_mib[i]);
      --gpu.view.tasks;
      if (gpu.view.tasks == 0) {
        gpu.view.exclusive_task = false;
        gpu.view.sm_shares = 0;
      }
      Refresh(left[i]);
    }
  }

  bool StartBest() {
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      if (!stale_[gpu]) continue;
      stale_[gpu] = false;
      for (std::size_t task = 0; task < line_.size(); ++task) {
        if (waits_[task]) ScoreOn(task, gpu);
      }
    }
    std::optional<std::size_t> best;
    double best_score = kNotThere;
    for (std::size_t task = 0; task < line_.size(); ++task) {
      if (!waits_[task]) continue;
      const double score = ScoreOf(task);
      if (score > best_score) {
        best = task;
        best_score = score;
      }
    }
    if (!best) return false;
    Start(*best, BestGpus(*best));
    return true;
  }

  void ScoreOn(std::size_t task, std::size_t gpu) {
    const Need& need = line_[task].need;
    const GpuView& view = gpus_[gpu].view;
    const bool fits = FitOf(config_, need, view, Part::kOther) == Fit::kFits;
    scores_[task][gpu] = fits ? mapper_.Score(need, view) : kNotThere;
    if (!need.others_mib) return;
    may_be_first_[task].resize(gpus_.size());
    may_be_first_[task][gpu] = FitOf(config_, need, view) == Fit::kFits;
  }

  double ScoreOf(std::size_t task) const {
    const std::vector<double>& scores = scores_[task];
    if (line_[task].need.gpus == 1) return std::ranges::max(scores);
    const std::vector<std::size_t> best = BestGpus(task);
    if (best.empty()) return kNotThere;
    double sum = 0;
    for (const std::size_t gpu : best) sum += scores[gpu];
    return sum / static_cast<double>(best.size());
  }

  // The GPUs that the task would take. Empty if too few GPUs can take it.
  std::vector<std::size_t> BestGpus(std::size_t task) const {
    const std::vector<double>& scores = scores_[task];
    const Need& need = line_[task].need;
    if (need.gpus == 1)
      return {static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin())};
    std::vector<GpuLinks::Candidate> candidates;
    for (std::uint32_t gpu = 0; gpu < scores.size(); ++gpu) {
      if (scores[gpu] != kNotThere)
        candidates.push_back(
            {GpuIndex{gpu}, scores[gpu], !need.others_mib || may_be_first_[task][gpu]});
    }
    std::vector<std::size_t> best;
    for (const GpuIndex gpu :
         GpuLinks().Best(std::move(candidates), static_cast<std::size_t>(need.gpus)))
      best.push_back(Number(gpu));
    return best;
  }

  const PolicyConfig& config_;
  const Mapper& mapper_;
  std::span<const FutureTask> line_;
  double now_s_ = 0;
  std::vector<Gpu> gpus_;
  std::vector<Run> runs_;
  std::size_t active_ = 0;
  std::vector<bool> waits_;
  std::vector<std::vector<double>> scores_;  // by task and GPU, as of the last check
  // Indexed by task and GPU. Filled in only for tasks with Need::others_mib.
  std::vector<std::vector<bool>> may_be_first_;
  std::vector<double> slowdowns_;  // scratch values for one GPU
  std::vector<bool> stale_;        // GPUs that have changed since the last check
};

}  // namespace

Future::Future(const PolicyConfig& config, const Mapper& mapper, std::span<const GpuView> views,
               std::span<const FutureRun> running, std::span<const FutureTask> line)
    : config_(config), mapper_(mapper), views_(views), running_(running), line_(line) {}

double Future::CostOf(const std::optional<FutureStart>& first) const {
  Course course(config_, mapper_, views_, running_, line_);
  if (first) {
    course.Start(first->task, first->gpus);
    course.StartWhatFits();
  }
  return course.PlayToTheEnd();
}

}  // namespace carma::core
