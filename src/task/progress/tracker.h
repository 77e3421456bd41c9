// Follows the progress of one running program at a bounded cost: the output that came between two
// looks is kept up to a few KiB, the rest is skipped.
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
  static constexpr std::size_t kKeptBytes = 2048;     // of each stream between two looks
  static constexpr std::int64_t kLastGapMs = 10'000;  // between looks; shorter at the beginning

  // stream: 0 stdout, 1 stderr.
  void Take(int stream, std::string_view data);
  // When to look next, by the clock of Look(); empty: nothing has come since the last look.
  std::optional<std::int64_t> NextLookMs() const;
  // now_ms: since the Unix epoch. Returns what is known if that has changed.
  std::optional<ProgressReport> Look(std::int64_t now_ms);

 private:
  // A moment of the run, by which its end is reckoned.
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
