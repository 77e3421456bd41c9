#include "base/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace carma::base {
namespace {

constexpr std::int64_t kMostCpus = 65'536;

}  // namespace

std::string CpuListText(std::vector<int> cpus) {
  std::ranges::sort(cpus);
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] <= cpus[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (cpus[end - 1] != cpus[i]) text += fmt::format("-{}", cpus[end - 1]);
    i = end;
  }
  return text;
}

std::optional<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  text = Trim(text);
  if (text.empty()) return cpus;
  for (const std::string_view range : Split(text, ',')) {
    const std::size_t dash = range.find('-');
    const std::optional<std::int64_t> first = ParseInt(range.substr(0, dash));
    const std::optional<std::int64_t> last =
        dash == std::string_view::npos ? first : ParseInt(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostCpus) return std::nullopt;
    for (std::int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  std::ranges::sort(cpus);
  const auto [from, to] = std::ranges::unique(cpus);
  cpus.erase(from, to);
  return cpus;
}

}  // namespace carma::base
