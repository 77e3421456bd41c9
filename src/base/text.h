// Text utilities: splitting, numbers, sizes, time spans, UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace carma::base {

std::string_view Trim(std::string_view text);
// Returns all pieces between separators, including empty pieces. Split("", ',') is {""}.
std::vector<std::string_view> Split(std::string_view text, char separator);
// Returns the pieces between runs of spaces and tabs. A blank text has no pieces.
std::vector<std::string_view> SplitWords(std::string_view text);
// True if `word` is in a list such as " a b c ". The list must begin and end with a blank.
bool IsWordIn(std::string_view spaced_words, std::string_view word);
// The part after the last slash.
std::string_view BaseName(std::string_view path);
std::string ToLower(std::string_view text);
std::string Join(const std::vector<std::string>& pieces, std::string_view separator);

// Empty unless the entire text is a number.
std::optional<std::int64_t> ParseInt(std::string_view text);
std::optional<double> ParseDouble(std::string_view text);  // finite only

// Parses sizes such as "800", "800M" (MiB), "12G", "12GB", "12GiB", "1.5T" and "900K" into MiB,
// rounded up. Case is ignored, all units are powers of 1024, and a bare number is MiB. Returns
// kInvalid for any other text, a negative size, or more than 2^40 MiB.
Result<std::int64_t> ParseMemoryMib(std::string_view text);
// Parses Slurm's forms "M", "M:S", "H:M:S", "D-H", "D-H:M", "D-H:M:S" (a bare number is minutes),
// and "90s", "15m", "12h", "2d", "1h30m". Returns kInvalid for any other text, a negative span, or
// more than 10 years.
Result<Duration> ParseSpan(std::string_view text);

std::string Counted(std::int64_t count, std::string_view what);  // "1 task", "2 tasks"

std::string FormatMib(std::int64_t mib);  // "812M", "12.3G"
std::string FormatSpan(Duration span);    // "0:07", "12:41", "3:05:00", "2-03:00:00"
std::string FormatTime(Time t);           // local "2026-03-01 14:05:59"
std::string FormatTimeIso(Time t);        // UTC "2026-03-01T13:05:59.120Z"
// Converts the UTC times of FormatTimeIso() in text to local time.
std::string LocalTimes(std::string_view text);

bool IsUtf8(std::string_view text);
// True if the text contains a control character (C0, DEL, or C1, which some terminals obey), a line
// separator, or a bidirectional mark or override. Does not check for invalid UTF-8.
bool HasControls(std::string_view text);
bool IsOneLine(std::string_view text);  // UTF-8 without such characters
// Returns a printable one-line form for messages and tables. Invalid UTF-8 and the characters
// listed at HasControls become '?'. A text longer than max_bytes is cut and ends with "…".
std::string Printable(std::string_view text, std::size_t max_bytes = 200);

}  // namespace carma::base
