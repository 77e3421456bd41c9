// When a waiting task starts, in words that promise no more than is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace carma::cli {

// "by 14:20", "by Tue 09:05", "by 2026-03-01 14:20"; "about" if only likely; empty: unknown. For a
// column.
std::string StartBrief(const std::optional<std::int64_t>& latest_ms,
                       const std::optional<std::int64_t>& likely_ms, std::int64_t now_ms);
// Sentences, each with its basis; empty: unknown.
std::string StartSentences(const std::optional<std::int64_t>& latest_ms,
                           const std::optional<std::int64_t>& likely_ms, std::int64_t now_ms);
// "2026-03-01 14:20".
std::string Minute(std::int64_t ms);
// A moment relative to now: "14:20", "Tue 09:05", "2026-03-01 14:20".
std::string MomentBrief(std::int64_t ms, std::int64_t now_ms);

}  // namespace carma::cli
