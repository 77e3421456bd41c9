#include "lab/sim/model_words.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/suggest.h"
#include "base/text.h"

namespace carma::sim {
namespace {

// Sets the run option selected by kFind. A plain number must be within kRange.
template <auto kFind, int... kRange>
bool Sets(RunOptions& options, std::string_view value) {
  return Set(kFind(options), value, kRange...);
}
#define AT(member)             \
  [](auto& options) -> auto& { \
    return options.member;     \
  }

constexpr std::string_view kShare = "share from 0 to 1";
constexpr std::string_view kNumber = "number from 0 to 100";
constexpr std::string_view kSpan = "time span with a unit, such as 30s";

constexpr ModelWord kWords[] = {
    {"memory_first", kShare, "share of a task's peak memory that it allocates at first (1)",
     Sets<AT(memory.first_share), 0, 1>},
    {"memory_ramp", kSpan, "time over which the task allocates the rest, in four steps (0s)",
     Sets<AT(memory.ramp)>},
    {"memory_growth", kNumber, "memory growth per hour, as a share of the task's peak (0)",
     Sets<AT(memory.growth_per_hour), 0, 100>},
    {"memory_spike", kNumber, "extra memory during a spike, as a share of the task's peak (0)",
     Sets<AT(memory.spike_share), 0, 100>},
    {"memory_spike_every", kSpan, "interval between memory spikes (1h)",
     Sets<AT(memory.spike_every)>},
    {"memory_spike_lasts", kSpan, "length of a memory spike (30s)", Sets<AT(memory.spike_lasts)>},
    {"memory_fragments", "size", "memory lost to fragmentation per additional task on a GPU (0)",
     Sets<AT(memory.fragmentation_mib)>},
    {"load", kSpan, "time from the launch to the first allocation (14s)", Sets<AT(memory.load)>},
    {"crash", kSpan, "time from a failed allocation until the process exits (8s)",
     Sets<AT(memory.crash_delay)>},
    {"oversubscription", kNumber,
     "throughput lost under MPS per unit of SM activity beyond 1.05 (0)",
     Sets<AT(interference.mps_oversubscription), 0, 100>},
    {"streams", kNumber, "mutual slowdown of tasks that take turns on a GPU (1.5)",
     Sets<AT(interference.streams_a), 0, 100>},
    {"cpu_cores", "number from 0 to 1e6", "CPU cores shared by a server's tasks; 0 means unlimited",
     Sets<AT(host.cores), 0, 1'000'000>},
    {"cpu_cores_wanted", "number from 0 to 1e6",
     "CPU cores that a task uses per GPU, unless the trace specifies them (8)",
     Sets<AT(host.cores_per_gpu_task), 0, 1'000'000>},
    {"cpu_cores_promised", "true or false",
     "whether tasks wait until the server has enough free cores (false)", Sets<AT(host.promised)>},
    {"failures", "number from 0 to 1000",
     "failures other than out of memory, per hour of running alone on an A100 (0)",
     Sets<AT(failures.per_hour), 0, 1000>},
    {"checkpoint", kSpan, "interval between a task's checkpoints; 0s means none",
     Sets<AT(checkpoints.every)>},
    {"checkpoint_cost", kSpan,
     "time to write a checkpoint; the task makes no progress meanwhile (0s)",
     Sets<AT(checkpoints.cost)>},
    {"checkpoint_on_stop", "true or false",
     "whether a stopped task writes a checkpoint first (false)", Sets<AT(checkpoints.on_stop)>},
    {"stop", kSpan, "time a task takes to exit after being stopped (2s)", Sets<AT(stopping.takes)>},
    {"progress", kShare, "share of tasks that print their progress (0)",
     Sets<AT(progress.share), 0, 1>},
    {"time_slot", kSpan, "run time after which a task is requeued if others wait; 0s means never",
     Sets<AT(time_slot)>},
};
#undef AT

}  // namespace

bool Set(double& target, std::string_view value, double low, double high) {
  const std::optional<double> number = base::ParseDouble(value);
  if (!number || !(*number >= low && *number <= high)) return false;
  target = *number;
  return true;
}

bool Set(int& target, std::string_view value, int low, int high) {
  const std::optional<std::int64_t> number = base::ParseInt(value);
  if (!number || *number < low || *number > high) return false;
  target = static_cast<int>(*number);
  return true;
}

bool Set(std::int64_t& target_mib, std::string_view value) {
  return SetIf(target_mib, base::ParseMemoryMib(value));
}

bool Set(base::Duration& target, std::string_view value) {
  // Requires a unit: a bare number would mean minutes, although times are shown in seconds.
  const bool has_unit = !value.empty() && std::string_view("smhd").contains(value.back());
  return SetIf(target, base::ParseSpan(has_unit ? value : ""));
}

bool Set(bool& target, std::string_view value) {
  target = value == "true";
  return value == "true" || value == "false";
}

std::span<const ModelWord> ModelWords() {
  return kWords;
}

Result<Unit> SetModelWord(RunOptions& options, std::string_view name, std::string_view value) {
  const auto* word = std::ranges::find(kWords, name, &ModelWord::name);
  if (word == std::end(kWords)) {
    std::vector<std::string> known;
    for (const ModelWord& each : kWords) known.emplace_back(each.name);
    return Invalid("{}: unknown keyword{}", base::Printable(name, 80),
                   base::Suggestion(name, known));
  }
  if (word->set(options, value)) return Unit{};
  return Invalid("{}: expected {}, not '{}'", name, word->type, base::Printable(value, 60));
}

}  // namespace carma::sim
