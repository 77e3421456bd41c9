// Converts readings and errors of GPUs to and from JSON, for recordings and between the daemon and
// its reader.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "gpu/probe.h"

namespace carma::base {
class JsonReader;
}

namespace carma::gpu {

// {"code":…,"gpu":…,"message":…}, without "gpu" if the error names none.
nlohmann::json ErrorToJson(const ReadError& error);
// Errors: kInvalid with the place below /error.
Result<ReadError> ErrorFromJson(const nlohmann::json& json);

nlohmann::json ReadingToJson(const Reading& reading);

// Adds {"reading":{…}} or {"error":{…}} to an object. Absent values and Reading::taken are left
// out.
void AddAnswer(const ReadResult<Reading>& answer, nlohmann::json& json);
// Reads the reading or the error from an object. Errors: kInvalid with the place if both or neither
// are there, or a value is out of range.
Result<ReadResult<Reading>> TakeAnswer(base::JsonReader& in);

}  // namespace carma::gpu
