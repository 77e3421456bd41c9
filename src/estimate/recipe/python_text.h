// What a training script says by its text. Nothing is executed: only what stands there as it is
// counts, numbers, words in quotes, lists of them, names of the file that hold such.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Of the calls that configure a training (TrainingArguments, SFTConfig, LoraConfig,
// BitsAndBytesConfig, from_pretrained …) their named arguments, of add_argument its default, under
// the names that MeaningOf knows: LoraConfig's r is lora_r. In the order they stand; where: the
// file's name. At most kMaxSettings.
std::vector<Setting> ReadPythonText(std::string_view text, std::string_view where);

}  // namespace carma::estimate
