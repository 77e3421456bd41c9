// A device, a reading or an error of a GPU as JSON: in recordings, between the daemon and its
// reader, and in the daemon's list of known GPUs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

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
// are present, or a value is out of range.
Result<ReadResult<Reading>> TakeAnswer(base::JsonReader& in);

// Absent values are left out, so that older and newer files can both be read.
nlohmann::json DeviceToJson(const DeviceInfo& info);
// Errors: kInvalid with the place below `pointer`: no name, or neither memory nor a `trouble` that
// explains its absence.
Result<DeviceInfo> DeviceFromJson(const nlohmann::json& json, const std::string& pointer);

}  // namespace carma::gpu
