// Computes edit distances between words, to suggest the word that the user probably meant.
#include "base/suggest.h"

#include <algorithm>
#include <utility>

namespace carma::base {
namespace {

// Swapping two adjacent characters counts as one edit.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> DidYouMean(std::string_view word, const std::vector<std::string>& known,
                                      std::size_t near) {
  if (word.size() > 100) return std::nullopt;
  std::optional<std::string> nearest;
  std::size_t least = near + 1;
  for (const std::string& each : known) {
    const std::size_t distance = EditDistance(word, each);
    // The dashes of "--qos" do not count as common characters.
    const std::size_t dashes = word.starts_with("--") && each.starts_with("--") ? 2 : 0;
    if (distance < least && distance < (each.size() - dashes) / 2 + 1) {
      least = distance;
      nearest = each;
    }
  }
  return nearest;
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::optional<std::string> meant = DidYouMean(word, known, 2);
  return meant ? ", did you mean " + *meant + "?" : "";
}

}  // namespace carma::base
