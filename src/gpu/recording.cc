#include "gpu/recording.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/try.h"
#include "gpu/reading_json.h"

namespace carma::gpu {
namespace {

using base::Json;
using base::JsonReader;

constexpr std::int64_t kMaxMs = std::int64_t{10} * 365 * 86'400 * 1'000;
constexpr std::size_t kMaxDevices = 1'024;

Result<Recording> ParseHead(std::string_view line) {
  const Json json = CARMA_TRY(base::ParseJson(line));
  Recording recording;
  JsonReader in(json, "");
  std::int64_t version = 0;
  in.Get("carma_recording", version, 0, std::numeric_limits<std::int64_t>::max());
  if (!in.error() && version != kRecordingVersion) {
    return Invalid("expected {\"carma_recording\":" + std::to_string(kRecordingVersion) +
                   ", …}; the file is not a recording, or it is from a different version");
  }
  in.Get("made_by", recording.made_by, 200);
  in.Get("driver", recording.driver, 200);
  const Json* devices = in.Raw("devices");
  if (in.error()) return std::unexpected(*in.error());
  if (!devices || !devices->is_array() || devices->size() > kMaxDevices)
    return Invalid("/devices: expected a list of at most 1024 GPUs");
  for (const Json& item : *devices)
    recording.devices.push_back(CARMA_TRY(DeviceFromJson(item, "/devices")));
  return recording;
}

Result<RecordedAnswer> ParseAnswer(std::string_view line, std::size_t devices) {
  const Json json = CARMA_TRY(base::ParseJson(line));
  JsonReader in(json, "");
  std::int64_t at_ms = 0;
  std::int64_t device = -1;
  in.Get("at_ms", at_ms, 0, kMaxMs);
  in.Get("gpu", device, 0, static_cast<std::int64_t>(devices) - 1);
  if (!in.error() && device < 0) in.Complain("gpu", "the index of a GPU in the header");
  if (in.error()) return std::unexpected(*in.error());
  ReadResult<Reading> told = CARMA_TRY(TakeAnswer(in));
  return RecordedAnswer{base::Duration(at_ms), static_cast<std::size_t>(device), std::move(told)};
}

}  // namespace

std::string RecordingHead(const Recording& head) {
  Json devices = Json::array();
  for (const DeviceInfo& info : head.devices) devices.push_back(DeviceToJson(info));
  return base::DumpJson({{"carma_recording", kRecordingVersion},
                         {"made_by", head.made_by},
                         {"driver", head.driver},
                         {"devices", std::move(devices)}}) +
         "\n";
}

std::string RecordingLine(const RecordedAnswer& answer) {
  Json line = {{"at_ms", answer.at.count()}, {"gpu", answer.device}};
  AddAnswer(answer.reading, line);
  return base::DumpJson(line) + "\n";
}

Result<Recording> ParseRecording(std::string_view text) {
  if (text.size() > kMaxRecordingBytes) return Invalid("the recording is larger than 256 MiB");
  std::optional<Recording> recording;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::string where = "line " + std::to_string(number);
    if (!recording) {
      recording = CARMA_TRY(base::Wrap(ParseHead(line), where));
      continue;
    }
    RecordedAnswer answer =
        CARMA_TRY(base::Wrap(ParseAnswer(line, recording->devices.size()), where));
    if (!recording->answers.empty() && answer.at < recording->answers.back().at)
      return Invalid(where + ": /at_ms: expected a time no earlier than the previous one");
    recording->answers.push_back(std::move(answer));
  }
  if (!recording) return Invalid("line 1: expected a recording header");
  return std::move(*recording);
}

}  // namespace carma::gpu
