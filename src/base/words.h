// Converts enum values to words and back. The store, the log, the API and the parsers all use the
// same table of words, which is defined next to the enum.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace carma::base {

// Pairs of {value, word} for every enumerator. If a value has several words, the first is used for
// writing.
template <class Enum>
using Words = std::span<const std::pair<Enum, std::string_view>>;

// Specialised next to each enum that has words:
//   template <> inline constexpr base::Words<QueueKind> base::kWordsOf<QueueKind> = kQueueWords;
template <class Enum>
inline constexpr Words<Enum> kWordsOf = {};

template <class Enum>
concept HasWords = !kWordsOf<Enum>.empty();

// An enumerator without a word is a programming error.
template <HasWords Enum>
std::string_view WordOf(Enum value) {
  for (const auto& [known, word] : kWordsOf<Enum>) {
    if (known == value) return word;
  }
  CARMA_CHECK(false, "an enumerator has no name string");
  return {};
}

// Returns nothing if there is no such word. Case-sensitive.
template <HasWords Enum>
std::optional<Enum> FromWord(std::string_view text) {
  for (const auto& [value, word] : kWordsOf<Enum>) {
    if (word == text) return value;
  }
  return std::nullopt;
}

// Lists all words, for messages that name the valid values: "main or recovery", "a, b or c".
template <HasWords Enum>
std::string AllWords() {
  std::string all;
  const std::size_t count = kWordsOf<Enum>.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) all += i + 1 == count ? " or " : ", ";
    all += kWordsOf<Enum>[i].second;
  }
  return all;
}

}  // namespace carma::base
