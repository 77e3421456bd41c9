#include "core/values/pace.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "core/values/gpu_choice.h"

namespace carma::core {
namespace {

constexpr double kSlowest = 0.001;
constexpr double kFastest = 1000;
constexpr std::size_t kMostTypeBytes = 64;

}  // namespace

std::vector<double> PacesOf(std::span<const GpuInfo> gpus) {
  std::vector<double> paces(gpus.size(), 1);
  if (gpus.empty()) return paces;
  const auto [slowest, fastest] = std::ranges::minmax(gpus, {}, &GpuInfo::speed);
  if (slowest.speed <= 0) return paces;
  std::ranges::transform(gpus, paces.begin(),
                         [most = fastest.speed](const GpuInfo& gpu) { return gpu.speed / most; });
  return paces;
}

Result<TypeSpeed> ParseTypeSpeed(std::string_view text) {
  const std::size_t at = text.find('=');
  const std::string_view type = base::Trim(text.substr(0, at));
  const std::optional<double> speed = at == std::string_view::npos
                                          ? std::nullopt
                                          : base::ParseDouble(base::Trim(text.substr(at + 1)));
  const bool named = !type.empty() && type.size() <= kMostTypeBytes &&
                     std::ranges::all_of(type, [](char c) { return c >= ' ' && c != 0x7F; });
  if (!named || !speed || !(*speed >= kSlowest && *speed <= kFastest)) {
    return Invalid("expected a GPU type and its relative speed, like a6000=0.5, got '{}'",
                   base::Printable(text, 80));
  }
  return TypeSpeed{std::string(type), *speed};
}

std::string TextOf(const TypeSpeed& speed) {
  return fmt::format("{}={}", speed.type, speed.speed);
}

double SpeedOf(std::span<const TypeSpeed> known, std::string_view model) {
  const auto found = std::ranges::find_if(
      known, [&](const TypeSpeed& each) { return NamesType(each.type, model); });
  return found == known.end() ? 0 : found->speed;
}

}  // namespace carma::core
