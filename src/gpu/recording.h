// Recordings of a driver's answers, for bug reports and tests.
//
// A recording consists of JSON lines. The first line is the header:
//   {"carma_recording":1,"made_by":…,"driver":…,"devices":[…]}
// Every other line is one device's answer. The lines are in chronological order, and "at_ms" is the
// time since the first answer:
//   {"at_ms":1000,"gpu":0,"reading":{…}}
//   {"at_ms":1000,"gpu":0,"error":{"code":…,"gpu":…,"message":…}}
// Absent values are omitted. The names contain the units. Processes are recorded only by pid,
// without user or command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "gpu/probe.h"

namespace carma::gpu {

inline constexpr int kRecordingVersion = 1;
inline constexpr std::size_t kMaxRecordingBytes = std::size_t{256} << 20;

struct RecordedAnswer {
  base::Duration at{0};  // since the first answer
  std::size_t device = 0;
  ReadResult<Reading> reading;
};

struct Recording {
  std::string made_by;  // "carma 0.1.0"
  std::string driver;   // the driver's version; may be empty
  std::vector<DeviceInfo> devices;
  std::vector<RecordedAnswer> answers;
};

// Lines of the file, each with its newline.
std::string RecordingHead(const Recording& head);  // without the answers
std::string RecordingLine(const RecordedAnswer& answer);

// Ignores an incomplete last line, as left by a recorder that was killed. Returns kInvalid with the
// line number if the text is not a recording of this version, has values out of range or decreasing
// times, or exceeds kMaxRecordingBytes.
Result<Recording> ParseRecording(std::string_view text);

}  // namespace carma::gpu
