#include "gpu/reading_json.h"

#include <algorithm>
#include <utility>

#include "base/fields_json.h"
#include "base/text.h"
#include "base/try.h"
#include "gpu/counters.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

using base::Json;
using base::JsonReader;

constexpr std::size_t kMaxText = 200;
constexpr std::size_t kMaxMessage = 4'096;

Result<Reading> ReadingFromJson(const Json& json) {
  Reading reading;
  JsonReader in(json, "/reading");
  base::FieldReader reader(in, base::Unknown::kPassedOver);
  Reading::VisitFields(reader, reading);
  if (std::ranges::any_of(reading.xids, [](int xid) { return xid < 0 || xid > 999; }))
    in.Complain("xids", "numbers of 0 to 999");
  if (in.error()) return std::unexpected(*in.error());
  return reading;
}

}  // namespace

void Reading::VisitFields(auto& field, auto& reading) {
  field("total_mib", reading.total_mib, "", kMibRule);
  field("reserved_mib", reading.reserved_mib, "", kMibRule);
  field("used_mib", reading.used_mib, "", kMibRule);
  field("counters", reading.counters);
  for (const Counter& counter : Counters()) {
    const double most = counter.unit == CounterUnit::kFraction ? 1 : kMaxBytesPerSecond;
    field(counter.name.data(), reading.*counter.value, "", {.least = 0, .most = most});
  }
  for (const Gauge& gauge : Gauges())
    field(gauge.name.data(), reading.*gauge.value, "", {.least = 0, .most = gauge.high});
  Condition::VisitFields(field, reading.condition);
  field("processes", reading.processes, "", {.max_items = 65'536});
  field("processes_hidden", reading.processes_hidden, "", {.unless_empty = true});
  field("xids", reading.xids, "", {.max_items = 1'024, .unless_empty = true});
}

Json ReadingToJson(const Reading& reading) {
  return base::FieldsToJson(reading, base::Absent::kLeftOut);
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
  if (!in.error() && (reading == nullptr) == (error == nullptr))
    in.Complain("reading", "exactly one of /reading and /error");
  if (in.error()) return std::unexpected(*in.error());
  if (error) {
    ReadError told = CARMA_TRY(ErrorFromJson(*error));
    return ReadResult<Reading>(std::unexpected(std::move(told)));
  }
  Reading read = CARMA_TRY(ReadingFromJson(*reading));
  return ReadResult<Reading>(std::move(read));
}

Json DeviceToJson(const DeviceInfo& info) {
  Json json = base::FieldsToJson(info, base::Absent::kLeftOut);
  if (info.trouble.cause != TroubleCause::kOther)
    json["trouble_cause"] = base::WordOf(info.trouble.cause);
  return json;
}

Result<DeviceInfo> DeviceFromJson(const Json& json, const std::string& pointer) {
  DeviceInfo info;
  std::string cause;
  base::JsonReader in(json, pointer);
  base::FieldReader reader(in, base::Unknown::kPassedOver);
  DeviceInfo::VisitFields(reader, info);
  in.Get("trouble_cause", cause, kNameRule.max_bytes);
  if (info.uuid.empty()) in.Complain("uuid", "a GPU name");
  if (info.total_mib == 0 && info.trouble.empty()) in.Complain("total_mib", "the GPU's memory");
  if (in.error()) return std::unexpected(*in.error());
  // Later versions may write causes that this version does not know.
  info.trouble = {base::Printable(info.trouble.text, 4'096),
                  base::FromWord<TroubleCause>(cause).value_or(TroubleCause::kOther),
                  base::Printable(info.trouble.gpu, kNameRule.max_bytes)};
  return info;
}

}  // namespace carma::gpu
