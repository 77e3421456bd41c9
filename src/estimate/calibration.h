// Lessons of finished tasks about this server: the constant part of a task's memory, and the errors
// of predictions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "task/verdict/observation.h"

namespace carma::estimate {

// With at least this many different tasks only a site's own ratios count; with fewer they are mixed
// with the shipped factor in proportion.
inline constexpr std::size_t kFullCalibration = 30;
// With fewer different tasks, or fewer models small enough to show the constant, nothing is learned
// yet.
inline constexpr std::size_t kLeastCalibration = 5;
// A model that needs more than this beside the constant shows the formula's error more than the
// constant.
inline constexpr double kMostSmallMib = 1024;

// Learned for one GPU type. Default: nothing learned, all values as shipped.
struct Site {
  std::string gpu_type;   // the one that was asked about
  std::string taught_by;  // the type that the values come from; empty: no values
  std::size_t tasks = 0;  // different tasks behind them
  // Difference of the constant of a process without further libraries from the shipped one (kEager,
  // kPlain); 0: as shipped. Only a shift that predicted the site's own tasks better.
  double context_shift_mib = 0;
  // Measured / predicted of those tasks, with the constant in force; rising.
  std::vector<double> ratios;
  // Which constant is in force and why, one clause: "as shipped: fewer than 5 …".
  std::string reason;

  // c0 of this site for a model with this shipped constant, whatever loading that assumed, because
  // the measurements here show how programs load. Never below 64 MiB.
  double ContextMib(double shipped_mib) const;
  // What a point must be multiplied with to cover this share of the runs (0.5..0.999): the
  // conformal quantile of the ratios, the ceil((n + 1) coverage)-th of n, mixed with the shipped
  // factor while n is below kFullCalibration. If n is too small for the coverage, the larger of the
  // shipped factor and the second largest ratio is used. Never below the shipped factor, nor more
  // than twice as far above 1, because tasks of one kind show little about the errors of other
  // kinds.
  double Factor(double coverage, double shipped) const;
  // One sentence for the warnings of an answer: values of one GPU type used for another. Else
  // empty.
  std::string Remark() const;
};

// Site for tasks on `gpu_type`. Only observations with a formula and without ran_out count, and
// only the newest of one signature: a task that is repeated a hundred times still counts once.
// The constant: the median of (measured - rest - libraries) of the small models, one value for each
// relation. Of the two ways of loading libraries the one with better agreement is used.
// It is used only if it differs by more than the formula's own error explains, less that error by
// the root of the number of models, and if models left out in turn would have been predicted
// better with what the others showed than as shipped.
// Without kLeastCalibration tasks on `gpu_type`, the type with the most tasks teaches; without
// that, nothing. gpu_type may be empty: not known.
Site Calibrate(std::span<const task::Observation> observations, const std::string& gpu_type);

}  // namespace carma::estimate
