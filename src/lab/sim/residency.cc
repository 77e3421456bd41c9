#include "lab/sim/residency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::sim {
namespace {

constexpr double kMaxTimeS = 366.0 * 86400;

// The time that one part of a task spends on a GPU.
struct Stay {
  double start_s = 0;
  double end_s = 0;
  std::size_t task = 0;
  Load load;
};

// Returns the task's pace on this GPU at `at_s`. Paces change only when a task arrives or leaves.
double PaceAt(const std::vector<Stay>& gpu, std::size_t task, double at_s,
              const Interference& model) {
  std::vector<Load> loads;
  std::size_t mine = 0;
  for (const Stay& stay : gpu) {
    if (at_s < stay.start_s || at_s >= stay.end_s) continue;
    if (stay.task == task) mine = loads.size();
    loads.push_back(stay.load);
  }
  std::vector<double> speeds(loads.size());
  Speeds(model, core::SharingMethod::kMps, loads, speeds);
  return speeds[mine];
}

// Returns how much work the task has done, in seconds of solo run time. A task runs at the pace of
// its slowest part.
double WorkDone(const std::vector<MeasuredTask::Part>& parts, std::size_t task,
                const std::map<int, std::vector<Stay>>& gpus, const Interference& model) {
  std::vector<double> cuts;  // times at which a pace may change
  for (const MeasuredTask::Part& part : parts) {
    for (const Stay& stay : gpus.at(part.gpu)) {
      for (const double at_s : {stay.start_s, stay.end_s}) {
        if (at_s >= part.start_s && at_s <= part.end_s) cuts.push_back(at_s);
      }
    }
  }
  std::ranges::sort(cuts);
  double work_s = 0;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    if (cuts[i] <= cuts[i - 1]) continue;
    const double middle_s = (cuts[i - 1] + cuts[i]) / 2;
    double pace = 1.0;
    for (const MeasuredTask::Part& part : parts) {
      if (part.start_s <= middle_s && middle_s < part.end_s)
        pace = std::min(pace, PaceAt(gpus.at(part.gpu), task, middle_s, model));
    }
    work_s += pace * (cuts[i] - cuts[i - 1]);
  }
  return work_s;
}

}  // namespace

Result<std::vector<MeasuredTask>> ParseMeasuredTasks(std::string_view csv, std::string_view path) {
  const std::string where = base::Printable(path, 200);
  const base::CsvTable table = CARMA_TRY(
      base::CsvTable::Parse(csv, {"task_no", "workload_id", "gpu", "start_s", "end_s", "slowdown"},
                            kMaxMeasuredRows, where));
  std::vector<MeasuredTask> tasks;
  std::map<int, std::size_t> known;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const base::CsvRow row = table.Row(i);
    const double number = CARMA_TRY(row.Required("task_no", 0, 1e9));
    const double gpu = CARMA_TRY(row.Required("gpu", 0, 1e6));
    const double start_s = CARMA_TRY(row.Required("start_s", 0, kMaxTimeS));
    const double end_s = CARMA_TRY(row.Required("end_s", 0, kMaxTimeS));
    const double slowdown = CARMA_TRY(row.Required("slowdown", 1e-3, 1e6));
    if (end_s <= start_s) return row.Wrong("end_s is not after start_s");
    const std::string workload(base::Trim(row.Text("workload_id")));
    const auto [at, added] = known.try_emplace(static_cast<int>(number), tasks.size());
    if (added)
      tasks.push_back({.number = at->first, .workload_id = workload, .slowdown = slowdown});
    MeasuredTask& task = tasks[at->second];
    if (task.workload_id != workload)
      return row.Wrong("the task has a different workload on an earlier line");
    const auto gpu_number = static_cast<int>(gpu);
    for (const MeasuredTask::Part& part : task.parts) {
      if (part.gpu == gpu_number) return row.Wrong("the task is listed twice on this GPU");
    }
    task.parts.push_back({gpu_number, start_s, end_s});
  }
  if (tasks.empty()) return Invalid(where + ": no tasks");
  return tasks;
}

double DurationOf(const MeasuredTask& task) {
  double from_s = task.parts.front().start_s;
  double to_s = task.parts.front().end_s;
  for (const MeasuredTask::Part& part : task.parts) {
    from_s = std::min(from_s, part.start_s);
    to_s = std::max(to_s, part.end_s);
  }
  return to_s - from_s;
}

Agreement AgreementOf(std::span<const Prediction> predictions) {
  Agreement agreement{.tasks = predictions.size()};
  const auto count = static_cast<double>(predictions.size());
  double mean = 0;
  for (const Prediction& each : predictions) mean += each.measured / count;
  double spread = 0;
  for (const Prediction& each : predictions) {
    const double error = each.predicted - each.measured;
    agreement.mean_error += std::abs(error) / count;
    agreement.squares += error * error;
    spread += (each.measured - mean) * (each.measured - mean);
  }
  agreement.r2 = spread > 0 ? 1 - agreement.squares / spread : 0;
  return agreement;
}

Load LoadAsListed(const trace::Workload& workload, std::size_t part) {
  return {.sm_active = workload.sm_active[part],
          .sensitivity = workload.mps_sensitivity,
          .pressure = workload.mps_pressure};
}

Load LoadAsGuessed(const trace::Workload& workload, std::size_t part) {
  const double sm_active = workload.sm_active[part];
  const core::MpsParameters guess = core::GuessMps(sm_active, workload.traits);
  return {.sm_active = sm_active, .sensitivity = guess.sensitivity, .pressure = guess.pressure};
}

Result<Residency> ReplayResidency(const std::vector<MeasuredTask>& tasks,
                                  const trace::Catalogue& catalogue, const Interference& model,
                                  const LoadOfPart& load, double least_s) {
  std::map<int, std::vector<Stay>> gpus;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const MeasuredTask& task = tasks[i];
    const Result<const trace::Workload*> workload = catalogue.Find(task.workload_id);
    if (!workload) return base::Wrap(workload.error(), fmt::format("task {}", task.number));
    if (task.parts.size() > (*workload)->sm_active.size()) {
      return Invalid("task {} ran on {}, but its workload needs {}", task.number,
                     base::Counted(std::ssize(task.parts), "GPU"), (*workload)->sm_active.size());
    }
    for (std::size_t part = 0; part < task.parts.size(); ++part) {
      const MeasuredTask::Part& there = task.parts[part];
      gpus[there.gpu].push_back({there.start_s, there.end_s, i, load(**workload, part)});
    }
  }
  Residency residency;
  std::vector<Prediction> counted;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const double duration_s = DurationOf(tasks[i]);
    const double predicted = duration_s / WorkDone(tasks[i].parts, i, gpus, model);
    residency.predicted.push_back(predicted);
    if (duration_s >= least_s)
      counted.push_back({std::log(tasks[i].slowdown), std::log(predicted)});
  }
  residency.counted = AgreementOf(counted);
  return residency;
}

}  // namespace carma::sim
