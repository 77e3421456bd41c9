// Converts a device, a reading or a GPU error to JSON and back. The JSON is used in recordings,
// between the daemon and its reader, and in the daemon's list of known GPUs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "gpu/probe.h"

namespace carma::base {
class JsonReader;
}

namespace carma::gpu {

// {"code":…,"gpu":…,"message":…}, without "gpu" if the error names no GPU.
nlohmann::json ErrorToJson(const ReadError& error);
// If the JSON is invalid, returns kInvalid with a JSON pointer that starts with /error.
Result<ReadError> ErrorFromJson(const nlohmann::json& json);

nlohmann::json ReadingToJson(const Reading& reading);

// Adds {"reading":{…}} or {"error":{…}} to an object. Absent values and Reading::taken are omitted.
void AddAnswer(const ReadResult<Reading>& answer, nlohmann::json& json);
// Reads the reading or the error from an object. Returns kInvalid with a JSON pointer if both or
// neither are present, or if a value is out of range.
Result<ReadResult<Reading>> TakeAnswer(base::JsonReader& in);

// Omits absent values so that files from older and newer versions can both be read.
nlohmann::json DeviceToJson(const DeviceInfo& info);
// Returns kInvalid with a JSON pointer that starts with `pointer` if the name is missing, or if the
// memory is missing and no `trouble` explains why.
Result<DeviceInfo> DeviceFromJson(const nlohmann::json& json, const std::string& pointer);

}  // namespace carma::gpu
