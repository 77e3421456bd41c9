// Parsers for pieces of a line: numbers, time spans, words. Each begins at a position and, on
// success, moves it past the parsed text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace carma::task {

struct Scan {
  std::string_view text;
  std::size_t at = 0;

  bool done() const { return at >= text.size(); }
  char peek() const { return done() ? '\0' : text[at]; }
  bool Skip(std::string_view word);  // skips exactly this word
  void SkipAny(std::string_view these, std::size_t most = 1024);
  // Consumes characters while `holds` is true for them.
  std::string_view While(bool (*holds)(char));
  // Accepts "12", "0.5", "1.07E+01" and "-0.4", but not "nan" or "inf".
  std::optional<double> Number();
  // Accepts "12" and numbers with the suffix k, K, M or G, such as "44.7M" for 44.7 million.
  // Rejects negative numbers.
  std::optional<double> Count();
  // A time span in seconds: "1:48:18", "00:36", "2 days, 7:32:05", "12s", "350ms", "1h3m", "1m
  // 20s", "10.8 s". A bare number is not a span.
  std::optional<double> Span();
};

bool IsDigit(char c);
bool IsLetter(char c);
// Returns true if the character can be part of a name such as "train_loss".
bool IsNameChar(char c);
// Find `word` as a whole word, ignoring case. `word` must be in lower case and begin with a letter.
// FindWord returns npos if there is no match.
bool IsWordAt(std::string_view text, std::string_view word, std::size_t at);
std::size_t FindWord(std::string_view text, std::string_view word, std::size_t from = 0);
bool HasWord(std::string_view text, std::string_view word);
// Return a scan that begins right after the first match of the word (as in FindWord) or of the
// text, or nothing if there is no match.
std::optional<Scan> AfterWord(std::string_view line, std::string_view word);
std::optional<Scan> AfterText(std::string_view line, std::string_view text);

}  // namespace carma::task
