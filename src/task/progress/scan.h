// Parsers for pieces of a line: numbers, spans of time, words. All begin at a position and, on
// success, move it past what they read.
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
  bool Skip(std::string_view word);  // exactly this
  void SkipAny(std::string_view these, std::size_t most = 1024);
  // The characters from here on up to the first for which this is false.
  std::string_view While(bool (*holds)(char));
  // "12", "0.5", "1.07E+01", "-0.4"; no "nan", no "inf".
  std::optional<double> Number();
  // "12", "44.7M" (times a million), not negative.
  std::optional<double> Count();
  // "1:48:18", "00:36", "2 days, 7:32:05", "12s", "350ms", "1h3m", "1m 20s", "10.8 s": seconds.
  // A bare number is not a span.
  std::optional<double> Span();
};

bool IsDigit(char c);
bool IsLetter(char c);
// A part of a name such as "train_loss".
bool IsNameChar(char c);
// The word in the text, as a whole word in upper or lower case; npos: it does not occur. The word
// is given in lower case and begins with a letter.
bool IsWordAt(std::string_view text, std::string_view word, std::size_t at);
std::size_t FindWord(std::string_view text, std::string_view word, std::size_t from = 0);
bool HasWord(std::string_view text, std::string_view word);

}  // namespace carma::task
