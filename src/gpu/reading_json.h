// How an answer of a GPU is written down: in recordings, and between the daemon and its reader.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "gpu/probe.h"

namespace carma::base {
class JsonReader;
}

namespace carma::gpu {

// {"code":…,"gpu":…,"message":…}, without a GPU where none is named.
nlohmann::json ErrorToJson(const ReadError& error);
// Errors: kInvalid with the place below /error.
base::Result<ReadError> ErrorFromJson(const nlohmann::json& json);

nlohmann::json ReadingToJson(const Reading& reading);

// Adds {"reading":{…}} or {"error":{…}} to an object. Values that are absent are left out, and so
// is Reading::taken.
void AddAnswer(const ReadResult<Reading>& answer, nlohmann::json& json);
// The same read from an object. Errors: kInvalid with the place: neither or both of the two, values
// out of range.
base::Result<ReadResult<Reading>> TakeAnswer(base::JsonReader& in);

}  // namespace carma::gpu
