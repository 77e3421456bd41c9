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
// Nothing is learned from fewer than this many different tasks, and no constant from fewer than
// this many models that are small enough to reveal it.
inline constexpr std::size_t kLeastCalibration = 5;
// A model is small if it uses at most this much memory beyond the constant. For larger models, a
// measurement mainly shows the formula's error.
inline constexpr double kMostSmallMib = 1024;

// The calibration for one GPU type. By default, nothing is learned and the shipped values apply.
struct Site {
  std::string gpu_type;   // the requested type
  std::string taught_by;  // the type that the values come from; empty: no values
  std::size_t tasks = 0;  // number of different tasks that the values are based on
  // Difference between this site's constant and the shipped constant for eager loading without
  // additional libraries (kEager, kPlain). 0 means the shipped constants are used. Set only if the
  // difference improves predictions for the site's own tasks.
  double context_shift_mib = 0;
  // The measured/predicted ratio of each task, computed with the constant in use, in ascending
  // order.
  std::vector<double> ratios;
  // Which constant is used and why, as a clause: "as shipped: fewer than 5 …".
  std::string reason;

  // This site's constant for a model whose shipped constant is `shipped_mib`. A learned constant is
  // at least 64 MiB. It reflects how this site's tasks load kernels, so the loading mode behind
  // `shipped_mib` is ignored.
  double ContextMib(double shipped_mib) const;
  // The factor by which a point estimate must be multiplied to cover the fraction `coverage` of the
  // runs (0.5..0.999): the conformal quantile of the ratios, which is the ceil((n + 1) coverage)-th
  // of n. If n is too small for the coverage, the second largest ratio is used instead. While n is
  // below kFullCalibration, the quantile is mixed with the shipped factor.
  //
  // The result is at least the shipped factor. Its margin (factor - 1) is at most twice the shipped
  // margin, because tasks of one kind say little about the errors of other kinds.
  double Factor(double coverage, double shipped) const;
  // Warning that the values come from another GPU type, as one sentence; empty if they do not.
  std::string Remark() const;
};

// Calibrates the site for tasks on `gpu_type` (empty if unknown). Uses only runs with a formula
// result that did not run out of memory, and only the newest run of each signature. A task repeated
// a hundred times thus counts once. If `gpu_type` has fewer than kLeastCalibration tasks, uses the
// type with the most tasks. Learns nothing if that type has too few as well.
//
// The constant is the weighted median of (measured - rest - libraries) over the small models.
// Smaller models weigh more, and all runs of a model count as one. The constant is computed for
// each loading mode, and the result for the better-fitting mode is kept. It is used only if it
// differs from the shipped constant by more than the formula's own error and predicts held-out
// models better. It is then moved towards the shipped constant, by that error divided by the square
// root of the number of models.
Site Calibrate(std::span<const task::Observation> observations, const std::string& gpu_type);

}  // namespace carma::estimate
