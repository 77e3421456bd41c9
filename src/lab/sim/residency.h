// Compares a measured run with the interference model, task by task. Placements and times are taken
// from the measurement and only the speeds are computed, so the policy, the queue and memory cannot
// hide an error in the model.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/sim/models.h"
#include "lab/trace/workloads.h"

namespace carma::sim {

inline constexpr std::size_t kMaxMeasuredRows = 1'000;

struct MeasuredTask {
  struct Part {  // on one GPU, from the task's first allocation there to its end
    int gpu = 0;
    double start_s = 0;
    double end_s = 0;
  };
  int number = 0;
  std::string workload_id;
  double slowdown = 0;  // time on the GPUs divided by the time when running alone
  std::vector<Part> parts;
};

// CSV with task_no, workload_id, gpu, start_s, end_s and slowdown. Further rows of the same task
// describe its other GPUs. Returns kInvalid "path:7: …" for an invalid row.
Result<std::vector<MeasuredTask>> ParseMeasuredTasks(std::string_view csv, std::string_view path);

// Returns the load that a task puts on one of its GPUs; `part` is that GPU's index within the task.
using LoadOfPart = std::function<Load(const trace::Workload& workload, std::size_t part)>;
// LoadAsListed returns the catalogue's parameters, which are guesses if the workload was not
// measured. LoadAsGuessed always guesses (core::GuessMps).
Load LoadAsListed(const trace::Workload& workload, std::size_t part);
Load LoadAsGuessed(const trace::Workload& workload, std::size_t part);

// Time from the task's first allocation on any GPU to its end.
double DurationOf(const MeasuredTask& task);

struct Prediction {
  double measured = 0;
  double predicted = 0;
};
// How well predictions agree with measurements, with one value per task.
struct Agreement {
  std::size_t tasks = 0;
  double squares = 0;     // sum of the squared errors
  double mean_error = 0;  // mean of |predicted - measured|
  double r2 = 0;          // against the mean of the measured values
};
Agreement AgreementOf(std::span<const Prediction> predictions);
struct Residency {
  std::vector<double> predicted;  // slowdown of each task, in order
  Agreement counted;              // of the log slowdowns of tasks that ran at least least_s
};

// Tasks that ran for less than least_s are excluded from the agreement because their measured
// slowdown is unreliable, but they still slow down other tasks. Returns kInvalid if a workload is
// not in the catalogue, cannot be replayed, or is listed with a different number of GPUs.
Result<Residency> ReplayResidency(const std::vector<MeasuredTask>& tasks,
                                  const trace::Catalogue& catalogue, const Interference& model,
                                  const LoadOfPart& load, double least_s = 0);

}  // namespace carma::sim
