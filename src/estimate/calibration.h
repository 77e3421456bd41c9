// Learns from finished tasks of this server the constant part of a task's memory and the errors of
// predictions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "task/verdict/observation.h"

namespace carma::estimate {

// From this number of different tasks on, only the site's own ratios are used. Below it, they are
// mixed with the shipped factor in proportion.
inline constexpr std::size_t kFullCalibration = 30;
// With fewer different tasks, or fewer models that are small enough to show the constant, nothing
// is learned.
inline constexpr std::size_t kLeastCalibration = 5;
// If a model needs more than this in addition to the constant, its measurement shows the formula's
// error more than the constant.
inline constexpr double kMostSmallMib = 1024;

// The calibration of one GPU type. By default nothing is learned, and all values are as shipped.
struct Site {
  std::string gpu_type;   // the requested type
  std::string taught_by;  // the type that the values come from; empty: no values
  std::size_t tasks = 0;  // number of different tasks behind the values
  // Difference between the constant of a process without additional libraries and the shipped
  // constant (kEager, kPlain); 0: as shipped. Set only if it predicts the site's own tasks better.
  double context_shift_mib = 0;
  // Measured / predicted of the tasks with the constant in force, in ascending order.
  std::vector<double> ratios;
  // Which constant is in force and why, as a clause: "as shipped: fewer than 5 …".
  std::string reason;

  // This site's constant for a model with this shipped constant. How the shipped constant assumes
  // kernels to be loaded does not matter, because measurements show it. At least 64 MiB.
  double ContextMib(double shipped_mib) const;
  // The factor by which a point must be multiplied to cover this share of the runs (0.5..0.999):
  // the conformal quantile of the ratios, the ceil((n + 1) coverage)-th of n, mixed with the
  // shipped factor while n is below kFullCalibration. If n is too small for the coverage, the
  // second largest ratio is used. The result is at least the shipped factor and at most twice as
  // far above 1, because tasks of one kind show little about the errors of other kinds.
  double Factor(double coverage, double shipped) const;
  // A sentence for an answer's warnings if values of another GPU type are used; else empty.
  std::string Remark() const;
};

// Calibrates the site for tasks on `gpu_type`. Only observations with a formula and without ran_out
// are used, and only the newest of each signature, so a task repeated a hundred times counts once.
// The constant is the median of (measured - rest - libraries) over the small models, one value for
// each model. Of the two ways of loading libraries, the better match is assumed. The constant is
// used only if it differs by more than the formula's own error divided by the root of the number of
// models, and if it predicts held-out models better than the shipped constant. If `gpu_type` has
// fewer than kLeastCalibration tasks, the type with the most tasks is used. If that type has too
// few tasks as well, nothing is learned. An empty gpu_type means unknown.
Site Calibrate(std::span<const task::Observation> observations, const std::string& gpu_type);

}  // namespace carma::estimate
