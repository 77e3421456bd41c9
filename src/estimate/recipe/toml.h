// The subset of TOML that training configurations use.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Reads tables, arrays of tables (numbered from 0), dotted keys, and values on one line or in
// brackets over several lines: "[training] seq_len = 8_192" is training.seq_len with the value
// 8192. Text in triple quotes is ignored. where: the file's name for sources and messages. Errors:
// kInvalid "where:line: …" for a line that is not a table, key or comment, brackets or quotes
// without an end, or more than kMaxSettings.
Result<std::vector<Setting>> ReadToml(std::string_view text, std::string_view where);

}  // namespace carma::estimate
