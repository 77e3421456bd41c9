// What finished tasks show about this server: the constant part of a task's memory, and the errors
// of predictions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "task/verdict/observation.h"

namespace carma::estimate {

// With at least this many different tasks, only the site's own ratios are used; with fewer, they
// are mixed with the shipped factor in proportion.
inline constexpr std::size_t kFullCalibration = 30;
// With fewer different tasks, or fewer models small enough to show the constant, nothing is learned
// yet.
inline constexpr std::size_t kLeastCalibration = 5;
// A model that needs more than this beside the constant shows the formula's error more than the
// constant.
inline constexpr double kMostSmallMib = 1024;

// What was learned for one GPU type. By default nothing: all values are as shipped.
struct Site {
  std::string gpu_type;   // the requested one
  std::string taught_by;  // the type that the values come from; empty: no values
  std::size_t tasks = 0;  // number of different tasks from which they come
  // How far the constant of a process without additional libraries is from the shipped one (kEager,
  // kPlain); 0: as shipped. Set only if the shift predicts the site's own tasks better.
  double context_shift_mib = 0;
  // Measured / predicted of those tasks with the constant in force, in ascending order.
  std::vector<double> ratios;
  // Which constant is in force and why, one clause: "as shipped: fewer than 5 …".
  std::string reason;

  // This site's constant for a model with this shipped constant. The way of loading kernels that
  // the shipped constant assumes does not matter, because the measurements show it. Never below 64
  // MiB.
  double ContextMib(double shipped_mib) const;
  // The factor by which a point must be multiplied to cover this share of the runs (0.5..0.999):
  // the conformal quantile of the ratios, the ceil((n + 1) coverage)-th of n, mixed with the
  // shipped factor while n is below kFullCalibration. If n is too small for the coverage, the
  // larger of the shipped factor and the second largest ratio is used. Never below the shipped
  // factor and at most twice as far above 1, because tasks of one kind show little about the errors
  // of other kinds.
  double Factor(double coverage, double shipped) const;
  // A sentence for the warnings of an answer if values of one GPU type are used for another; else
  // empty.
  std::string Remark() const;
};

// Calibrates the site for tasks on `gpu_type`. Only observations with a formula and without ran_out
// are used, and only the newest of each signature: a task that is repeated a hundred times still
// counts once. The constant is the median of (measured - rest - libraries) over the small models,
// one value for each model. Of the two ways of loading libraries the one that agrees better is
// assumed. The constant is used only if it differs by more than the formula's own error divided by
// the root of the number of models, and if it predicts held-out models better than the shipped
// constant does. If `gpu_type` has fewer than kLeastCalibration tasks, the type with the most tasks
// is used; if that has too few as well, nothing is learned. An empty gpu_type means unknown.
Site Calibrate(std::span<const task::Observation> observations, const std::string& gpu_type);

}  // namespace carma::estimate
