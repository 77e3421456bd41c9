// Settings that describe how a transformer is trained, taken from options and from the training
// run's files. They are the input to the closed-form memory estimate (docs/inside/estimators.md,
// "Transformers").
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/text.h"

namespace carma::task {

// A training setting. If a list repeats a name, the last entry is used.
struct TrainingWord {
  std::string name;   // a name in TrainingOptions()
  std::string value;  // "on" for a switch
  std::string from;   // "train.sh:12: --max_length"; empty: an option of the command line

  static void VisitFields(auto& field, auto& word) {
    field("name", word.name, "Name of a carma submit option, without dashes.",
          {.max_bytes = 64, .fits = IsName, .expected = "an option that describes a training run"});
    field("value", word.value, "Value of the option; on for a switch.", kValue);
    field("from", word.from, "Where the option was found; empty if the user specified it.", kValue);
  }
  friend bool operator==(const TrainingWord&, const TrainingWord&) = default;

 private:
  static bool IsName(std::string_view text);
  static constexpr base::FieldRule kValue{.max_bytes = 1000,
                                          .fits = base::IsOneLine,
                                          .expected = "one line of at most 1000 bytes of UTF-8"};
};
inline constexpr std::size_t kMaxTrainingWords = 200;

struct TrainingOption {
  std::string_view name;
  std::string_view value;  // placeholder for help; empty: a switch
  std::string_view help;
  bool shared = false;  // other estimators have this option too: batch, …
};
// All options, in help order. The estimators check their values (estimate/training_words.h).
std::span<const TrainingOption> TrainingOptions();
const TrainingOption* FindTrainingOption(std::string_view name);  // null if there is no such option

}  // namespace carma::task
