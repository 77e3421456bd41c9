// Calibrates the memory formula for this server: learns the constant part of a task's memory and
// the prediction errors from finished tasks.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "task/verdict/observation.h"

namespace carma::estimate {

// With at least this many different tasks, only the site's own ratios are used. With fewer, they
// are mixed proportionally with the shipped factor.
inline constexpr std::size_t kFullCalibration = 30;
// Minimum number of different tasks, and of models small enough to reveal the constant. With fewer,
// nothing is learned.
inline constexpr std::size_t kLeastCalibration = 5;
// A model is small if it uses at most this much memory beyond the constant. For larger models, a
// measurement mainly shows the formula's error.
inline constexpr double kMostSmallMib = 1024;

// The calibration for one GPU type. By default, nothing is learned and the shipped values apply.
struct Site {
  std::string gpu_type;   // the requested type
  std::string taught_by;  // the type that the values come from; empty: no values
  std::size_t tasks = 0;  // number of different tasks that the values are based on
  // This site's constant minus the shipped constant (kEager, kPlain), both for a process without
  // additional libraries. 0 means the shipped constant is used. Set only if the shift improves
  // predictions for the site's own tasks.
  double context_shift_mib = 0;
  // The measured/predicted ratio of each task, computed with the constant in use, in ascending
  // order.
  std::vector<double> ratios;
  // Which constant is used and why, as a clause: "as shipped: fewer than 5 …".
  std::string reason;

  // This site's constant for a model whose shipped constant is `shipped_mib`. A learned constant is
  // at least 64 MiB and reflects how this site's tasks load kernels, regardless of the loading mode
  // that `shipped_mib` assumes.
  double ContextMib(double shipped_mib) const;
  // The factor by which a point estimate must be multiplied to cover the fraction `coverage` of the
  // runs (0.5..0.999). It is the conformal quantile of the ratios: the ceil((n + 1) coverage)-th of
  // n. While n is below kFullCalibration, this quantile is mixed with the shipped factor. If n is
  // too small for the coverage, the second largest ratio is used. The result is at least the
  // shipped factor, and its margin (factor - 1) is at most twice the shipped margin, because tasks
  // of one kind say little about the errors of other kinds.
  double Factor(double coverage, double shipped) const;
  // Warning that the values come from another GPU type, as one sentence; empty if they do not.
  std::string Remark() const;
};

// Calibrates the site for tasks on `gpu_type`; an empty type means unknown. Uses only observations
// with a formula result from runs that did not run out of memory. Only the newest observation of
// each signature is used, so a task repeated a hundred times counts once. The constant is the
// median of (measured - rest - libraries) over the small models, with one value per model. It is
// computed for each loading mode, and the result for the better-fitting mode is kept. It is used
// only if it differs from the shipped constant by more than the formula's own error divided by the
// square root of the number of models, and if it predicts held-out models better. If `gpu_type` has
// fewer than kLeastCalibration tasks, the type with the most tasks is used. If that type has too
// few tasks as well, nothing is learned.
Site Calibrate(std::span<const task::Observation> observations, const std::string& gpu_type);

}  // namespace carma::estimate
