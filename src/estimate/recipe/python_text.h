// Reads settings from the text of a training script. Nothing is executed: only literals (numbers,
// quoted words, lists of them) and names in the file with such values count.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Returns the named arguments of calls that configure a training (TrainingArguments, SFTConfig,
// LoraConfig, BitsAndBytesConfig, from_pretrained …) and the defaults of add_argument, under the
// names that MeaningOf knows: LoraConfig's r is lora_r. They are in the order of the text, at most
// kMaxSettings. where: the file's name.
std::vector<Setting> ReadPythonText(std::string_view text, std::string_view where);

}  // namespace carma::estimate
