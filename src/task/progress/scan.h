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
  // "12", "0.5", "1.07E+01", "-0.4"; neither "nan" nor "inf".
  std::optional<double> Number();
  // "12", "44.7M" (times a million), not negative.
  std::optional<double> Count();
  // A time span in seconds: "1:48:18", "00:36", "2 days, 7:32:05", "12s", "350ms", "1h3m", "1m
  // 20s", "10.8 s". A bare number is not a span.
  std::optional<double> Span();
};

bool IsDigit(char c);
bool IsLetter(char c);
// Whether the character can be part of a name such as "train_loss".
bool IsNameChar(char c);
// Find `word` as a separate word in upper or lower case. FindWord returns npos if there is no such
// word. `word` must be in lower case and begin with a letter.
bool IsWordAt(std::string_view text, std::string_view word, std::size_t at);
std::size_t FindWord(std::string_view text, std::string_view word, std::size_t from = 0);
bool HasWord(std::string_view text, std::string_view word);
// Return a scan that begins right after the word (found as by FindWord) or right after the text.
// Empty if the line does not contain it.
std::optional<Scan> AfterWord(std::string_view line, std::string_view word);
std::optional<Scan> AfterText(std::string_view line, std::string_view text);

}  // namespace carma::task
