// What finished tasks taught about this server: the constant part of a task's memory and how far
// predictions are off.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "task/verdict/observation.h"

namespace carma::estimate {

// From so many different tasks on a site's own ratios stand alone; before, they are mixed with the
// shipped ones in proportion.
inline constexpr std::size_t kFullCalibration = 30;
// Fewer different tasks teach nothing yet.
inline constexpr std::size_t kLeastCalibration = 5;

// Learned for one GPU type. Default: nothing is known, everything is as shipped.
struct Site {
  std::string gpu_type;   // the one that was asked about
  std::string taught_by;  // the type that the values come from; empty: no values
  std::size_t tasks = 0;  // different tasks behind them
  // How much more than the shipped one (kEager, kPlain) the constant of a process without further
  // libraries is; 0: none learned.
  double context_shift_mib = 0;
  // Measured / predicted of those tasks, with the shifted constant; rising.
  std::vector<double> ratios;

  // c0 of this site, for a model whose shipped constant is this, whichever way of loading that
  // assumed: what was measured here says how programs load. Never below 64 MiB.
  double ContextMib(double shipped_mib) const;
  // What a point must be multiplied with to cover so many of the runs (0.5..0.999): the conformal
  // quantile of the ratios, the ceil((n + 1) coverage)-th of n, mixed with the shipped factor while
  // n is below kFullCalibration. Where n is too small for the coverage at all, the larger of the
  // shipped factor and the second largest ratio stands for the quantile.
  double Factor(double coverage, double shipped) const;
  // One sentence for the warnings of an answer: values of one GPU type used for another. Else
  // empty.
  std::string Remark() const;
};

// Site for tasks on `gpu_type`. Of the observations those with a formula and without ran_out
// count, of one signature only the newest: a task that is repeated a hundred times is still one.
// c0: the median of (measured - rest - libraries), each weighted by 1 / rest, because a small model
// shows the constant almost bare and a large one shows the formula's own error. Of the two ways of
// loading libraries the one counts in which the tasks agree better.
// Without kLeastCalibration tasks on `gpu_type`, the type with the most tasks teaches; without
// that, nothing. gpu_type may be empty: not known.
Site Calibrate(std::span<const task::Observation> observations, const std::string& gpu_type);

}  // namespace carma::estimate
