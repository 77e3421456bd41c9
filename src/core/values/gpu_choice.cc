#include "core/values/gpu_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace carma::core {
namespace {

// Drivers report at least this share of a GPU's nominal memory, in percent.
constexpr std::int64_t kTellsAtLeast = 92;
// Length of the shortest accepted UUID prefix ("GPU-5d"). A shorter prefix is probably a typo.
constexpr std::size_t kLeastOfUuid = 6;

// A run of letters or a run of digits. A word consists of one or more adjacent runs.
struct Run {
  std::string text;  // in lower case
  bool begins = false;
  bool ends = false;  // whether it ends the word
};

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::vector<Run> RunsOf(std::string_view name) {
  std::vector<Run> runs;
  bool in_word = false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (!IsDigit(c) && !IsLetter(c)) {
      if (in_word) runs.back().ends = true;
      in_word = false;
      continue;
    }
    const bool goes_on = in_word && IsDigit(c) == IsDigit(name[i - 1]);
    if (!goes_on) runs.push_back({.begins = !in_word, .ends = false});
    runs.back().text += IsLetter(c) ? static_cast<char>(c | 0x20) : c;
    in_word = true;
  }
  if (in_word) runs.back().ends = true;
  return runs;
}

bool IsUnit(const std::string& text) {
  return text == "g" || text == "gb" || text == "gib";
}

// Treats "40", "40g" and "40GB" as equal in a model's name.
bool AreAlike(const Run& wanted, const Run& told) {
  return wanted.text == told.text || (IsUnit(wanted.text) && IsUnit(told.text));
}

// If `wanted` matches the name's words starting at told[at], returns the position after the match.
std::optional<std::size_t> FollowsAt(std::span<const Run> wanted, std::span<const Run> told,
                                     std::size_t at) {
  if (!told[at].begins) return std::nullopt;
  for (const Run& each : wanted) {
    if (at == told.size() || !AreAlike(each, told[at])) return std::nullopt;
    ++at;
  }
  // The unit of a number may be omitted.
  const bool whole = told[at - 1].ends || (at < told.size() && IsUnit(told[at].text));
  return whole ? std::optional(at) : std::nullopt;
}

std::string NameOf(std::size_t index, const GpuInfo& gpu) {
  return gpu.type.empty() ? fmt::format("GPU {}", index)
                          : fmt::format("GPU {} ({})", index, gpu.type);
}

bool IsNamed(const std::vector<std::string>& names, std::size_t index, const GpuInfo& gpu) {
  const auto at = static_cast<GpuIndex>(index);
  return std::ranges::any_of(names,
                             [&](const std::string& each) { return NamesGpu(each, at, gpu); });
}

std::string WhyNotThis(const TaskRequest& request, std::size_t index, const GpuInfo& gpu) {
  if (request.gpu_type && !NamesType(*request.gpu_type, gpu.type)) {
    return fmt::format("{} is not of type {}, which the task asks for.", NameOf(index, gpu),
                       *request.gpu_type);
  }
  if (request.gpu_memory_min_mib && !HasMemory(gpu, *request.gpu_memory_min_mib)) {
    return fmt::format("{} has {} of memory, but the task asks for a GPU with at least {}.",
                       NameOf(index, gpu), base::FormatMib(gpu.total_mib),
                       base::FormatMib(*request.gpu_memory_min_mib));
  }
  if (!request.on_gpus.empty() && !IsNamed(request.on_gpus, index, gpu)) {
    return fmt::format("The task asks for GPU {} only.", base::Join(request.on_gpus, " or "));
  }
  if (IsNamed(request.not_on_gpus, index, gpu))
    return fmt::format("The task must not run on GPU {}.", index);
  return "";
}

}  // namespace

bool NamesType(std::string_view wanted, std::string_view model) {
  const std::vector<Run> asked = RunsOf(wanted);
  const std::vector<Run> told = RunsOf(model);
  if (asked.empty()) return false;
  std::size_t at = 0;
  for (std::size_t from = 0; from < asked.size();) {
    std::size_t to = from;
    while (!asked[to].ends) ++to;
    const std::span<const Run> word = std::span(asked).subspan(from, to + 1 - from);
    std::optional<std::size_t> behind;
    while (!behind && at < told.size()) behind = FollowsAt(word, told, at++);
    if (!behind) return false;
    at = *behind;
    from = to + 1;
  }
  return true;
}

bool NamesGpu(std::string_view name, GpuIndex index, const GpuInfo& gpu) {
  if (const std::optional<std::int64_t> number = base::ParseInt(name))
    return *number == static_cast<std::int64_t>(Number(index));
  const std::string wanted = base::ToLower(name);
  const std::string uuid = base::ToLower(gpu.uuid);
  return wanted == uuid || (wanted.size() >= kLeastOfUuid && uuid.starts_with(wanted));
}

bool HasMemory(const GpuInfo& gpu, std::int64_t wanted_mib) {
  return gpu.total_mib * 100 >= wanted_mib * kTellsAtLeast;
}

bool Chooses(const TaskRequest& request) {
  return request.gpu_type || request.gpu_memory_min_mib || !request.on_gpus.empty() ||
         !request.not_on_gpus.empty();
}

bool ChooseAlike(const TaskRequest& a, const TaskRequest& b) {
  return a.gpu_type == b.gpu_type && a.gpu_memory_min_mib == b.gpu_memory_min_mib &&
         a.on_gpus == b.on_gpus && a.not_on_gpus == b.not_on_gpus && a.linked_gpus == b.linked_gpus;
}

GpuChoice::GpuChoice(const TaskRequest& request, std::span<const GpuInfo> gpus) {
  if (!Chooses(request)) return;
  for (std::size_t i = 0; i < gpus.size(); ++i) why_not_.push_back(WhyNotThis(request, i, gpus[i]));
}

std::string TooFewChosen(const TaskRequest& request, std::span<const GpuInfo> gpus, int chosen) {
  std::vector<std::string> wishes;
  if (request.gpu_type) wishes.push_back("type " + *request.gpu_type);
  if (request.gpu_memory_min_mib)
    wishes.push_back("at least " + base::FormatMib(*request.gpu_memory_min_mib) + " of memory");
  if (!request.on_gpus.empty()) wishes.push_back("only GPU " + base::Join(request.on_gpus, " or "));
  if (!request.not_on_gpus.empty())
    wishes.push_back("not GPU " + base::Join(request.not_on_gpus, " or "));
  std::string text = fmt::format("The task needs {} ({}); {} of this server's {} {} that",
                                 base::Counted(request.gpus, "GPU"), base::Join(wishes, ", "),
                                 chosen == 0 ? "none" : std::to_string(chosen), gpus.size(),
                                 chosen > 1 ? "match" : "matches");
  if (request.gpu_memory_min_mib && !gpus.empty()) {
    const GpuInfo& largest = std::ranges::max(gpus, {}, &GpuInfo::total_mib);
    text += "; the largest has " + base::FormatMib(largest.total_mib);
  }
  return text + ".";
}

std::string_view GpuChoice::WhyNot(GpuIndex gpu) const {
  return Allows(gpu) ? std::string_view() : why_not_[Number(gpu)];
}

std::string TypesOf(std::span<const GpuInfo> gpus) {
  std::vector<std::pair<std::string, int>> types;
  for (const GpuInfo& gpu : gpus) {
    const auto at = std::ranges::find(types, gpu.type, &std::pair<std::string, int>::first);
    if (at == types.end()) {
      types.emplace_back(gpu.type, 1);
    } else {
      ++at->second;
    }
  }
  std::vector<std::string> words;
  for (const auto& [type, count] : types)
    words.push_back(fmt::format("{}x {}", count, type.empty() ? "unnamed type" : type));
  return words.empty() ? "none" : base::Join(words, ", ");
}

std::optional<std::string> MisnamedGpus(const TaskRequest& request, std::span<const GpuInfo> gpus) {
  if (request.gpu_type && std::ranges::none_of(gpus, [&](const GpuInfo& gpu) {
        return NamesType(*request.gpu_type, gpu.type);
      })) {
    return fmt::format("There is no GPU of type {} here; this server has {}.", *request.gpu_type,
                       TypesOf(gpus));
  }
  for (const std::vector<std::string>* names : {&request.on_gpus, &request.not_on_gpus}) {
    for (const std::string& name : *names) {
      bool known = false;
      for (std::size_t i = 0; i < gpus.size(); ++i)
        known |= NamesGpu(name, static_cast<GpuIndex>(i), gpus[i]);
      if (known) continue;
      return fmt::format(
          "There is no GPU {} here: this server has {}, numbered from 0; carma gpus -v shows their "
          "UUIDs.",
          name, gpus.size());
    }
  }
  return std::nullopt;
}

}  // namespace carma::core
