// The metrics shown in tables and files. All outputs use this one ordered list.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "report/metrics.h"
#include "report/report.h"

namespace carma::report {

struct Line {
  std::string name;  // "waiting, mean"
  std::string key;   // "waiting_mean_s"
  std::optional<double> (*value)(const Metrics&);
  std::string (*text)(double);  // "1:23:45"
  bool always = true;           // shown even if no run reports it
  bool share = false;           // differences are in percentage points
  // Formats the standard deviation of a mean. If null, the format of the value is used.
  std::string (*error)(double sd, double mean) = nullptr;
};
std::span<const Line> Lines();
// The line with this key, which must exist.
const Line& LineOf(std::string_view key);

// The line's value over all replays of a case. Empty if any replay does not report it.
std::optional<Estimated> Over(const Case& of, const Line& line);
// "1:23:45", "1:23:45 ± 0:12".
std::string Text(const Line& line, const Estimated& value);
// The difference between the means of two policies, used in all tables, figures and sentences. The
// n-th replays of both policies have the same seed, so noise that affects both cancels out.
struct Change {
  Estimated relative;  // -0.25: a quarter less
  // True if the difference is not significant: its 95 % confidence interval (Student's t) contains
  // 0. False for single runs, because their noise is unknown.
  bool within_noise = false;
};
// Both spans must have the same size, which is at least 1.
Change ChangeOf(std::span<const double> values, std::span<const double> reference);
// Empty if any replay does not report this line, or if the mean of `base` is 0.
std::optional<Change> ChangeOf(const Line& line, const Case& base, const Case& of);
// "-25.0 %"; "(-0.3 %)" within the noise; "+16.1 points" for a share; empty if unknown.
std::string Difference(const Line& line, const Case& base, const Case& of);
// How far the value is above the bound: "+12.0 %".
std::string AboveBound(double bound_s, const Estimated& value);

// The distinct names of the cases' bounds. Each name is a row of a table.
std::vector<std::string> BoundNames(std::span<const Case> cases);
// The bound in seconds, as the mean over the replays. Empty if a replay has no bound with that
// name.
std::optional<double> BoundOf(const Case& of, const std::string& name);

std::string CountText(double value);   // "60"; "59.5" for a mean of replays
std::string SpanText(double seconds);  // "12.3 s", "1:02:03"
// A short name for a label that is too long: "A", "B" … "Z", "AA", "BB" …
std::string LetterOf(std::size_t number);

}  // namespace carma::report
