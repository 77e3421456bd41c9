// The protocol between the daemon and its reader (carma-reader), which always have the same
// version. Each message is a single line. The request "list 3 5" returns all devices except those
// of GPUs 3 and 5 in NVML's list. The request "read 2 1700000000000" returns a reading of device 2
// at that time. Responses are JSON objects: {"asking":4} before the first driver call for GPU 4,
// then {"devices":[…],"numbers":[…]}, {"reading":{…}} or {"error":{…}}.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "gpu/probe.h"

namespace carma::gpu {

inline constexpr std::size_t kMaxReaderLine = std::size_t{8} << 20;

struct ListRequest {
  std::set<std::uint32_t> leave_out;
};
struct ReadRequest {
  std::size_t device = 0;
  base::Time now{};
};
using ReaderRequest = std::variant<ListRequest, ReadRequest>;

std::string FormatRequest(const ReaderRequest& request);
Result<ReaderRequest> ParseRequest(std::string_view line);

struct Asking {
  std::uint32_t number = 0;  // in NVML's list
};
struct ReaderListing {
  std::vector<DeviceInfo> devices;
  std::vector<std::uint32_t> numbers;  // NVML's number for each device's GPU
};
using ReaderAnswer = std::variant<Asking, ReaderListing, Reading, ReadError>;

std::string FormatAnswer(const ReaderAnswer& answer);
// Does not set Reading::taken. If the line is invalid, returns kInvalid with the position of the
// error.
Result<ReaderAnswer> ParseAnswer(std::string_view line);

}  // namespace carma::gpu
