// Follows the progress of one running program at bounded cost: only a few KiB of output are kept
// between checks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "task/progress/reader.h"
#include "task/progress/report.h"

namespace carma::task {

class ProgressTracker {
 public:
  static constexpr std::size_t kKeptBytes = 2048;     // of output kept per stream between checks
  static constexpr std::int64_t kLastGapMs = 10'000;  // time between checks; shorter at first

  // stream: 0 stdout, 1 stderr.
  void Take(int stream, std::string_view data);
  // When to check next, on the clock used by Look(); empty if there has been no output since the
  // last check.
  std::optional<std::int64_t> NextLookMs() const;
  // Checks the output. now_ms: since the Unix epoch. Returns the progress if it has changed.
  std::optional<ProgressReport> Look(std::int64_t now_ms);

 private:
  // Progress at one point in the run. The rate between two such points predicts the end.
  struct Moment {
    std::int64_t at_ms = 0;
    double fraction = 0;
  };
  void Update(const Progress& progress, std::int64_t now_ms);
  void ExpectEnd(const Progress& progress, std::int64_t now_ms);

  ProgressReader reader_;
  std::array<std::string, 2> kept_;
  std::array<bool, 2> torn_{};
  std::optional<std::int64_t> first_look_ms_, last_look_ms_;
  std::optional<Moment> first_, last_;
  std::optional<ProgressReport> report_;
};

}  // namespace carma::task
