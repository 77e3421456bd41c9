// Fits model parameters (sim/models.h) to measured slowdowns. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace carma::cli {

// One task's slowdown in one group.
struct SeenSlowdown {
  std::vector<std::size_t> members;  // workload numbers, with repetitions
  std::size_t who = 0;               // index in `members` of the task with this slowdown
  double slowdown = 1;               // time in the group divided by the time when running alone
};

struct MpsFit {
  std::vector<double> sensitivity, pressure;  // by workload; guessed if never measured
  double error = 0;                           // mean |log(predicted / measured)|
  std::vector<double> errors;                 // the same per workload
};
// Fits s and p in slowdown_i = 1 + s_i * sum p_j, where sum u_i / slowdown_i saturates at 1.05, by
// least squares of log(predicted / measured). u: each workload's SM activity when running alone; 0
// if unknown, which never saturates. The data determine only the products s_i * p_j, so
// profile::kPressurePerActivity sets the scale of s and p.
MpsFit FitMps(std::span<const double> u, std::span<const SeenSlowdown> seen);
// The slowdown of `of.who` predicted by the fitted parameters.
double PredictMps(std::span<const double> u, const MpsFit& fit, const SeenSlowdown& of);

struct StreamsFit {
  double a = 0;  // a in slowdown_i = 1 + a * g_i * sum g_j, where g = 1 - (1-u)^1.7
  double error = 0;
};
StreamsFit FitStreams(std::span<const double> u, std::span<const SeenSlowdown> seen);
double PredictStreams(std::span<const double> u, double a, const SeenSlowdown& of);

}  // namespace carma::cli
