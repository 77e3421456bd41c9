#include "base/fields_json.h"

#include <cmath>

namespace carma::base {

void FieldWriter::Put(const char* name, Json value) {
  (*json_)[name] = std::move(value);
}

void FieldReader::ReadSpan(const char* name, Duration& value, const FieldRule& rule) {
  if (InSeconds(name)) {
    double seconds = 0;
    in_->Get(name, seconds, Seconds(Duration(rule.low)), Seconds(Duration(rule.high)));
    value = Duration(std::llround(seconds * 1000));
  } else {
    std::int64_t ms = 0;
    in_->Get(name, ms, rule.low, rule.high);
    value = Duration(ms);
  }
}

}  // namespace carma::base
