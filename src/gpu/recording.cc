#include "gpu/recording.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "gpu/counters.h"
#include "gpu/device_json.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Json;
using base::JsonReader;
using base::Result;

constexpr std::int64_t kMaxMib = std::int64_t{1} << 40;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;
constexpr std::int64_t kMaxMs = std::int64_t{10} * 365 * 86'400 * 1'000;
constexpr std::size_t kMaxDevices = 1'024;
constexpr std::size_t kMaxProcesses = 65'536;
constexpr std::size_t kMaxXids = 1'024;
constexpr int kMaxPid = 1 << 30;
constexpr std::size_t kMaxText = 200;
constexpr CounterSource kSources[] = {CounterSource::kNone, CounterSource::kGpm,
                                      CounterSource::kDcgm};

struct CountName {
  const char* name;
  std::optional<std::int64_t> Condition::*value;
};
constexpr CountName kCounts[] = {{"ecc_corrected", &Condition::ecc_corrected},
                                 {"ecc_uncorrected", &Condition::ecc_uncorrected},
                                 {"rows_remapped", &Condition::rows_remapped}};
struct FlagName {
  const char* name;
  std::optional<bool> Condition::*value;
};
constexpr FlagName kFlags[] = {{"remap_pending", &Condition::remap_pending},
                               {"remap_failed", &Condition::remap_failed},
                               {"mig", &Condition::mig}};

// ---- writing ----

Json ToJson(const ProcessUse& use) {
  Json json = {{"pid", use.pid}};
  if (use.used_mib) json["used_mib"] = *use.used_mib;
  if (use.mps_server) json["mps_server"] = true;
  if (use.mps_client) json["mps_client"] = true;
  if (use.kernel_time) json["kernel_time"] = *use.kernel_time;
  return json;
}

void AddCondition(const Condition& condition, Json& json) {
  for (const auto& [name, value] : kCounts) {
    if (condition.*value) json[name] = *(condition.*value);
  }
  for (const auto& [name, value] : kFlags) {
    if (condition.*value) json[name] = *(condition.*value);
  }
  if (condition.compute_mode) json["compute_mode"] = static_cast<int>(*condition.compute_mode);
  if (condition.recovery) json["recovery"] = static_cast<int>(*condition.recovery);
}

Json ToJson(const Reading& reading) {
  Json json = {{"total_mib", reading.total_mib},
               {"reserved_mib", reading.reserved_mib},
               {"used_mib", reading.used_mib},
               {"counters", CounterSourceName(reading.counters)}};
  for (const Counter& counter : Counters()) {
    if (reading.*counter.value) json[std::string(counter.name)] = *(reading.*counter.value);
  }
  for (const Gauge& gauge : Gauges()) {
    if (reading.*gauge.value) json[std::string(gauge.name)] = *(reading.*gauge.value);
  }
  AddCondition(reading.condition, json);
  Json processes = Json::array();
  for (const ProcessUse& use : reading.processes) processes.push_back(ToJson(use));
  json["processes"] = std::move(processes);
  if (!reading.xids.empty()) json["xids"] = reading.xids;
  return json;
}

// ---- reading ----

Result<ProcessUse> ProcessFromJson(const Json& json, const std::string& pointer) {
  ProcessUse use;
  JsonReader in(json, pointer);
  int pid = 0;
  in.Get("pid", pid, 0, kMaxPid);
  use.pid = pid;
  in.Get("used_mib", use.used_mib, 0, kMaxMib);
  in.Get("mps_server", use.mps_server);
  in.Get("mps_client", use.mps_client);
  in.Get("kernel_time", use.kernel_time, 0, 1);
  if (in.error()) return std::unexpected(*in.error());
  return use;
}

void ReadCondition(JsonReader& in, Condition& condition) {
  for (const auto& [name, value] : kCounts) in.Get(name, condition.*value, 0, kMaxCount);
  for (const auto& [name, value] : kFlags) {
    bool flag = false;
    if (in.Get(name, flag)) condition.*value = flag;
  }
  int number = 0;
  if (in.Get("compute_mode", number, 0, static_cast<int>(ComputeMode::kExclusiveProcess))) {
    condition.compute_mode = static_cast<ComputeMode>(number);
  }
  if (in.Get("recovery", number, 0, static_cast<int>(RecoveryAction::kOther))) {
    condition.recovery = static_cast<RecoveryAction>(number);
  }
}

Result<Reading> ReadingFromJson(const Json& json) {
  Reading reading;
  JsonReader in(json, "/reading");
  in.Get("total_mib", reading.total_mib, 0, kMaxMib);
  in.Get("reserved_mib", reading.reserved_mib, 0, kMaxMib);
  in.Get("used_mib", reading.used_mib, 0, kMaxMib);
  std::string source = "none";
  in.Get("counters", source, 20);
  for (const CounterSource known : kSources) {
    if (CounterSourceName(known) == source) reading.counters = known;
  }
  if (CounterSourceName(reading.counters) != source) in.Complain("counters", "none, gpm or dcgm");
  for (const Counter& counter : Counters()) {
    const double high = counter.unit == CounterUnit::kFraction ? 1 : kMaxBytesPerSecond;
    in.Get(std::string(counter.name).c_str(), reading.*counter.value, 0, high);
  }
  for (const Gauge& gauge : Gauges()) {
    in.Get(std::string(gauge.name).c_str(), reading.*gauge.value, 0, gauge.high);
  }
  ReadCondition(in, reading.condition);
  if (const Json* processes = in.Raw("processes")) {
    if (!processes->is_array() || processes->size() > kMaxProcesses) {
      in.Complain("processes", "a list");
    } else {
      for (const Json& item : *processes) {
        Result<ProcessUse> use = ProcessFromJson(item, "/reading/processes");
        if (!use) return std::unexpected(use.error());
        reading.processes.push_back(*use);
      }
    }
  }
  if (const Json* xids = in.Raw("xids")) {
    const bool list = xids->is_array() && xids->size() <= kMaxXids;
    for (const Json& xid : list ? *xids : Json::array()) {
      if (xid.is_number_unsigned() && xid.get<std::uint64_t>() <= 999) {
        reading.xids.push_back(xid.get<int>());
      } else {
        in.Complain("xids", "numbers of 0 to 999");
      }
    }
    if (!list) in.Complain("xids", "a list");
  }
  if (in.error()) return std::unexpected(*in.error());
  return reading;
}

Result<Recording> ParseHead(std::string_view line) {
  const Result<Json> json = base::ParseJson(line);
  if (!json) return std::unexpected(json.error());
  Recording recording;
  JsonReader in(*json, "");
  std::int64_t version = 0;
  in.Get("carma_recording", version, 0, std::numeric_limits<std::int64_t>::max());
  if (!in.error() && version != kRecordingVersion) {
    return Fail(ErrorCode::kInvalid,
                "expected {\"carma_recording\":" + std::to_string(kRecordingVersion) +
                    ", …}: no recording, or of another version");
  }
  in.Get("made_by", recording.made_by, 200);
  in.Get("driver", recording.driver, 200);
  const Json* devices = in.Raw("devices");
  if (in.error()) return std::unexpected(*in.error());
  if (!devices || !devices->is_array() || devices->size() > kMaxDevices) {
    return Fail(ErrorCode::kInvalid, "/devices: expected a list of at most 1024 GPUs");
  }
  for (const Json& item : *devices) {
    Result<DeviceInfo> info = DeviceFromJson(item, "/devices");
    if (!info) return std::unexpected(info.error());
    recording.devices.push_back(std::move(*info));
  }
  return recording;
}

Result<RecordedAnswer> ParseAnswer(std::string_view line, std::size_t devices) {
  const Result<Json> json = base::ParseJson(line);
  if (!json) return std::unexpected(json.error());
  JsonReader in(*json, "");
  std::int64_t at_ms = 0;
  std::int64_t device = -1;
  in.Get("at_ms", at_ms, 0, kMaxMs);
  in.Get("gpu", device, 0, static_cast<std::int64_t>(devices) - 1);
  const Json* reading = in.Raw("reading");
  const Json* error = in.Raw("error");
  if (!in.error() && device < 0) in.Complain("gpu", "the index of a GPU of the head");
  if (!in.error() && (reading == nullptr) == (error == nullptr)) {
    in.Complain("reading", "either this or /error");
  }
  if (in.error()) return std::unexpected(*in.error());
  RecordedAnswer answer{base::Duration(at_ms), static_cast<std::size_t>(device), Reading{}};
  if (reading) {
    Result<Reading> read = ReadingFromJson(*reading);
    if (!read) return std::unexpected(read.error());
    answer.reading = std::move(*read);
    return answer;
  }
  JsonReader told(*error, "/error");
  std::string code, gpu, message;
  told.Get("code", code, 40);
  told.Get("gpu", gpu, kMaxText);
  told.Get("message", message, 4'096);
  if (told.error()) return std::unexpected(*told.error());
  answer.reading = std::unexpected(ReadError(
      base::ParseErrorCode(code), base::Printable(message, 4'096), base::Printable(gpu, kMaxText)));
  return answer;
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
  if (answer.reading) {
    line["reading"] = ToJson(*answer.reading);
  } else {
    const ReadError& error = answer.reading.error();
    line["error"] = {{"code", base::ErrorCodeName(error.code)}, {"message", error.message}};
    if (!error.gpu.empty()) line["error"]["gpu"] = error.gpu;
  }
  return base::DumpJson(line) + "\n";
}

Result<Recording> ParseRecording(std::string_view text) {
  if (text.size() > kMaxRecordingBytes) {
    return Fail(ErrorCode::kInvalid, "a recording of more than 256 MiB");
  }
  std::optional<Recording> recording;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::string where = "line " + std::to_string(number);
    if (!recording) {
      Result<Recording> head = ParseHead(line);
      if (!head) return base::Wrap(head.error(), where);
      recording = std::move(*head);
      continue;
    }
    Result<RecordedAnswer> answer = ParseAnswer(line, recording->devices.size());
    if (!answer) return base::Wrap(answer.error(), where);
    if (!recording->answers.empty() && answer->at < recording->answers.back().at) {
      return Fail(ErrorCode::kInvalid, where + ": /at_ms: expected no earlier time than before");
    }
    recording->answers.push_back(std::move(*answer));
  }
  if (!recording) return Fail(ErrorCode::kInvalid, "line 1: expected the head of a recording");
  return std::move(*recording);
}

}  // namespace carma::gpu
