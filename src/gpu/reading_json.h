// A reading or error of a GPU as JSON: in recordings, and between the daemon and its reader.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "gpu/probe.h"

namespace carma::base {
class JsonReader;
}

namespace carma::gpu {

// {"code":…,"gpu":…,"message":…}, without "gpu" if none is named.
nlohmann::json ErrorToJson(const ReadError& error);
// Errors: kInvalid with the place below /error.
Result<ReadError> ErrorFromJson(const nlohmann::json& json);

nlohmann::json ReadingToJson(const Reading& reading);

// Adds {"reading":{…}} or {"error":{…}} to an object, without absent values and Reading::taken.
void AddAnswer(const ReadResult<Reading>& answer, nlohmann::json& json);
// Reads it from an object. Errors: kInvalid with the place: neither or both of the two, values out
// of range.
Result<ReadResult<Reading>> TakeAnswer(base::JsonReader& in);

}  // namespace carma::gpu
