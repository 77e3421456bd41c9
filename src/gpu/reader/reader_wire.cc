#include "gpu/reader/reader_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "gpu/reading_json.h"

namespace carma::gpu {
namespace {

using base::Json;

constexpr std::size_t kMaxDevices = 4'096;
constexpr std::int64_t kMaxNumber = 1'024;  // highest GPU number in NVML's list

template <class... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};

Result<ReaderRequest> ParseList(const std::vector<std::string_view>& words) {
  ListRequest request;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::optional<std::int64_t> number = base::ParseInt(words[i]);
    if (!number || *number < 0 || *number > kMaxNumber)
      return Invalid("list: expected GPU numbers");
    request.leave_out.insert(static_cast<std::uint32_t>(*number));
  }
  return request;
}

Result<ReaderRequest> ParseRead(const std::vector<std::string_view>& words) {
  const auto device = words.size() == 3 ? base::ParseInt(words[1]) : std::nullopt;
  const auto now_ms = words.size() == 3 ? base::ParseInt(words[2]) : std::nullopt;
  if (!device || *device < 0 || !now_ms) return Invalid("read: expected a device and a time");
  return ReadRequest{static_cast<std::size_t>(*device), base::FromMs(*now_ms)};
}

Json ListingToJson(const ReaderListing& listing) {
  Json devices = Json::array();
  for (const DeviceInfo& device : listing.devices) devices.push_back(DeviceToJson(device));
  return {{"devices", std::move(devices)}, {"numbers", listing.numbers}};
}

Result<ReaderAnswer> ListingFromJson(const Json& devices, const Json* numbers) {
  if (!devices.is_array() || devices.size() > kMaxDevices || numbers == nullptr ||
      !numbers->is_array() || numbers->size() != devices.size()) {
    return Invalid("/devices: expected a list of GPUs and their numbers");
  }
  ReaderListing listing;
  for (const Json& each : devices)
    listing.devices.push_back(CARMA_TRY(DeviceFromJson(each, "/devices")));
  for (const Json& each : *numbers) {
    if (!each.is_number_unsigned() || each.get<std::uint64_t>() > kMaxNumber)
      return Invalid("/numbers: expected GPU numbers");
    listing.numbers.push_back(each.get<std::uint32_t>());
  }
  return listing;
}

}  // namespace

std::string FormatRequest(const ReaderRequest& request) {
  if (const auto* list = std::get_if<ListRequest>(&request))
    return fmt::format("list {}", fmt::join(list->leave_out, " "));
  const auto& read = std::get<ReadRequest>(request);
  return fmt::format("read {} {}", read.device, base::ToMs(read.now));
}

Result<ReaderRequest> ParseRequest(std::string_view line) {
  const std::vector<std::string_view> words = base::SplitWords(line);
  if (!words.empty() && words[0] == "list") return ParseList(words);
  if (!words.empty() && words[0] == "read") return ParseRead(words);
  return Invalid("expected list or read");
}

std::string FormatAnswer(const ReaderAnswer& answer) {
  return base::DumpJson(
      std::visit(Overloaded{[](const Asking& asking) -> Json {
                              return {{"asking", asking.number}};
                            },
                            [](const ReaderListing& listing) { return ListingToJson(listing); },
                            [](const Reading& reading) -> Json {
                              return {{"reading", ReadingToJson(reading)}};
                            },
                            [](const ReadError& error) -> Json {
                              return {{"error", ErrorToJson(error)}};
                            }},
                 answer));
}

Result<ReaderAnswer> ParseAnswer(std::string_view line) {
  const Json json = CARMA_TRY(base::ParseJson(line));
  base::JsonReader in(json, "");
  if (const Json* devices = in.Raw("devices")) return ListingFromJson(*devices, in.Raw("numbers"));
  if (in.Has("asking")) {
    std::int64_t number = 0;
    in.Get("asking", number, 0, kMaxNumber);
    if (in.error()) return std::unexpected(*in.error());
    return Asking{static_cast<std::uint32_t>(number)};
  }
  ReadResult<Reading> answer = CARMA_TRY(TakeAnswer(in));
  if (!answer) return std::move(answer.error());
  return std::move(*answer);
}

}  // namespace carma::gpu
