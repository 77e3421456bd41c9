// Translates progress lines into English if a training loop prints them in another language.
#include <algorithm>
#include <string>
#include <utility>

#include "task/progress/reading.h"

namespace carma::task {
namespace {

using std::string_view;
using Words = std::pair<string_view, string_view>;

// A line is translated only if it contains one of these words or "轮".
constexpr Words kCounterWords[] = {
    {"Epoche", "Epoch"},   {"Epoca", "Epoch"},    {"epoca", "epoch"},  {"Epoka", "Epoch"},
    {"Época", "Epoch"},    {"época", "epoch"},    {"Époque", "Epoch"}, {"époque", "epoch"},
    {"Эпоха", "Epoch"},    {"эпоха", "epoch"},    {"ЭПОХА", "Epoch"},  {"Обучение", "training"},
    {"轮次", "round "},    {"エポック", "epoch"}, {"에폭", "epoch"},   {"에포크", "epoch"},
    {"训练", "training "}, {"学習", "training "},
};
// Words that are also translated if the line contains a counter word.
constexpr Words kOtherWords[] = {
    {" von ", " of "}, {" di ", " of "},   {" de ", " of "},    {" sur ", " of "},
    {" из ", " of "},  {"：", ":"},        {"Verlust", "loss"}, {"erdita", " loss"},
    {"perte", "loss"}, {"Perte", "loss"},  {"érdida", " loss"}, {"perda", "loss"},
    {"Perda", "loss"}, {"отери", " loss"}, {"损失", "loss"},    {"損失", "loss"},
    {"손실", "loss"},  {"验证", "val "},   {"批次", "batch "},  {"Schritt", "step"},
    {"Шаг", "step"},   {"шаг", "step"},
};

bool Replace(std::string& line, const Words& words) {
  const std::size_t at = line.find(words.first);
  if (at == std::string::npos) return false;
  line.replace(at, words.first.size(), words.second);
  return true;
}

// Returns true if this byte begins an accented letter or a letter of a non-Latin alphabet. Excludes
// E2, which begins the characters of progress bars.
bool IsForeign(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0xc3 && byte <= 0xed && byte != 0xe2;
}

}  // namespace

std::optional<std::string> InEnglish(string_view line) {
  const bool latin = line.contains("poche") || line.contains("poca") || line.contains("poka");
  if (!latin && std::ranges::none_of(line, IsForeign)) return std::nullopt;
  std::string english(line);
  bool counts = false;
  for (const Words& words : kCounterWords) counts |= Replace(english, words);
  // In "第 3/10 轮", the word comes after its counter.
  if (!counts && english.contains("轮")) counts = Replace(english, {"第", "round "});
  if (!counts) return std::nullopt;
  for (const Words& words : kOtherWords) (void)Replace(english, words);
  return english;
}

}  // namespace carma::task
