// A measured run held against the interference model, task by task: who was on which GPU when is
// taken as it was measured, and only the speeds are computed. So no policy, queue or memory hides
// or makes up for an error of the model.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/sim/models.h"
#include "lab/trace/workloads.h"

namespace carma::sim {

inline constexpr std::size_t kMaxMeasuredRows = 1'000;

// One task of a measured run.
struct MeasuredTask {
  struct Part {  // on one GPU, from its first memory to its end
    int gpu = 0;
    double start_s = 0;
    double end_s = 0;
  };
  int number = 0;
  std::string workload_id;
  double slowdown = 0;  // time there over the time alone
  std::vector<Part> parts;
};

// CSV with task_no, workload_id, gpu, start_s, end_s and slowdown; further rows of a task are its
// further GPUs. Errors: kInvalid "path: line 7: …".
base::Result<std::vector<MeasuredTask>> ParseMeasuredTasks(std::string_view csv,
                                                           std::string_view path);

// What a task puts on its GPU number `part`. Null for a part it does not have.
using LoadOfPart = std::function<Load(const trace::Workload& workload, std::size_t part)>;
// The catalogue's parameters, and those that a workload would get if nobody had measured it
// (core::GuessMps).
Load LoadAsListed(const trace::Workload& workload, std::size_t part);
Load LoadAsGuessed(const trace::Workload& workload, std::size_t part);

// From its first memory anywhere to its last.
double DurationOf(const MeasuredTask& task);

// How well the model tells the slowdowns, in log slowdown.
struct Agreement {
  std::size_t tasks = 0;
  double mean_error = 0;  // mean of |log predicted - log measured|
  double r2 = 0;          // against the mean of the measured ones
};
struct Residency {
  std::vector<double> predicted;  // slowdown of each task, in order
  Agreement counted;              // of the tasks that were there for long enough
};

// least_s: a task that was there for less does not count in the agreement, because its times were
// not measured well enough to tell its slowdown; the others meet it all the same.
// Errors: kInvalid for a workload that the catalogue does not have or cannot replay, or of another
// number of GPUs.
base::Result<Residency> ReplayResidency(const std::vector<MeasuredTask>& tasks,
                                        const trace::Catalogue& catalogue,
                                        const Interference& model, const LoadOfPart& load,
                                        double least_s = 0);

}  // namespace carma::sim
