#include "gpu/reading_json.h"

#include <optional>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "gpu/counters.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

using base::Json;
using base::JsonReader;

constexpr std::int64_t kMaxMib = std::int64_t{1} << 40;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;
constexpr std::size_t kMaxProcesses = 65'536;
constexpr std::size_t kMaxXids = 1'024;
constexpr int kMaxPid = 1 << 30;
constexpr std::size_t kMaxText = 200;
constexpr std::size_t kMaxPath = 4'096;
constexpr std::size_t kMaxMessage = 4'096;
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

Json ProcessToJson(const ProcessUse& use) {
  Json json = {{"pid", use.pid}};
  if (use.used_mib) json["used_mib"] = *use.used_mib;
  if (use.mps_server) json["mps_server"] = true;
  if (use.mps_client) json["mps_client"] = true;
  if (use.kernel_time) json["kernel_time"] = *use.kernel_time;
  if (!use.group.empty()) json["group"] = use.group;
  if (!use.group.empty()) json["group_mib"] = use.group_mib;
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
  in.Get("group", use.group, kMaxPath);
  in.Get("group_mib", use.group_mib, 0, kMaxMib);
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

}  // namespace

Json ReadingToJson(const Reading& reading) {
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
  for (const ProcessUse& use : reading.processes) processes.push_back(ProcessToJson(use));
  json["processes"] = std::move(processes);
  if (!reading.xids.empty()) json["xids"] = reading.xids;
  return json;
}

Result<ReadError> ErrorFromJson(const Json& json) {
  JsonReader in(json, "/error");
  std::string code, gpu, message;
  in.Get("code", code, 40);
  in.Get("gpu", gpu, kMaxText);
  in.Get("message", message, kMaxMessage);
  if (in.error()) return std::unexpected(*in.error());
  return ReadError(base::ParseErrorCode(code), base::Printable(message, kMaxMessage),
                   base::Printable(gpu, kMaxText));
}

Json ErrorToJson(const ReadError& error) {
  Json json = {{"code", base::ErrorCodeName(error.code)}, {"message", error.message}};
  if (!error.gpu.empty()) json["gpu"] = error.gpu;
  return json;
}

void AddAnswer(const ReadResult<Reading>& answer, Json& json) {
  if (answer) {
    json["reading"] = ReadingToJson(*answer);
  } else {
    json["error"] = ErrorToJson(answer.error());
  }
}

Result<ReadResult<Reading>> TakeAnswer(JsonReader& in) {
  const Json* reading = in.Raw("reading");
  const Json* error = in.Raw("error");
  if (!in.error() && (reading == nullptr) == (error == nullptr)) {
    in.Complain("reading", "either this or /error");
  }
  if (in.error()) return std::unexpected(*in.error());
  if (error) {
    Result<ReadError> told = ErrorFromJson(*error);
    if (!told) return std::unexpected(told.error());
    return ReadResult<Reading>(std::unexpected(std::move(*told)));
  }
  Result<Reading> read = ReadingFromJson(*reading);
  if (!read) return std::unexpected(read.error());
  return ReadResult<Reading>(std::move(*read));
}

}  // namespace carma::gpu
