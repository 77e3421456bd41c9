#include "lab/sim/model_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace carma::sim {
namespace {

bool SetNumber(double& target, std::string_view value, double most) {
  const std::optional<double> number = base::ParseDouble(value);
  if (!number || !(*number >= 0 && *number <= most)) return false;
  target = *number;
  return true;
}

bool SetSpan(base::Duration& target, std::string_view value) {
  const Result<base::Duration> span = base::ParseSpan(value);
  if (span) target = *span;
  return span.has_value();
}

constexpr std::string_view kShare = "share from 0 to 1";
constexpr std::string_view kNumber = "number from 0 to 100";
constexpr std::string_view kSpan = "time span";

constexpr std::array kWords{
    ModelWord{"memory_first", kShare, "part of its peak that a task allocates first (1)",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.memory.first_share, value, 1);
              }},
    ModelWord{"memory_ramp", kSpan, "time in which it allocates the rest, in four steps (0s)",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.memory.ramp, value);
              }},
    ModelWord{"memory_growth", kNumber, "growth per hour, as a share of its peak (0)",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.memory.growth_per_hour, value, 100);
              }},
    ModelWord{"memory_spike", kNumber, "extra memory held for a moment, as a share of its peak (0)",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.memory.spike_share, value, 100);
              }},
    ModelWord{"memory_spike_every", kSpan, "interval between two such spikes (1h)",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.memory.spike_every, value);
              }},
    ModelWord{"memory_spike_lasts", kSpan, "length of a spike (30s)",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.memory.spike_lasts, value);
              }},
    ModelWord{"memory_fragments", "size",
              "memory lost to fragmentation for each further task of a GPU (0)",
              [](RunOptions& options, std::string_view value) {
                const Result<std::int64_t> mib = base::ParseMemoryMib(value);
                if (mib) options.memory.fragmentation_mib = *mib;
                return mib.has_value();
              }},
    ModelWord{"load", kSpan, "time from the launch to the first allocation (14s)",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.memory.load, value);
              }},
    ModelWord{"crash", kSpan, "time from a failed allocation to the end of the process (8s)",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.memory.crash_delay, value);
              }},
    ModelWord{"oversubscription", kNumber,
              "under MPS: loss of a GPU's tasks per GPU of excess SM activity (0)",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.interference.mps_oversubscription, value, 100);
              }},
    ModelWord{"streams", kNumber, "how much tasks that take turns slow each other down (1.5)",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.interference.streams_a, value, 100);
              }},
    ModelWord{"cpu_cores", "number from 0 to 1e6",
              "CPU cores that the tasks of a server share; 0: always enough",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.host.cores, value, 1e6);
              }},
    ModelWord{"cpu_cores_wanted", "number from 0 to 1e6",
              "cores that a task uses per GPU, if the load does not say (8)",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.host.cores_per_gpu_task, value, 1e6);
              }},
    ModelWord{"cpu_cores_promised", "true or false",
              "tasks wait until the server has cores for them (false)",
              [](RunOptions& options, std::string_view value) {
                options.host.promised = value == "true";
                return value == "true" || value == "false";
              }},
    ModelWord{"failures", "number from 0 to 1000",
              "failures of a task per hour, apart from lack of memory (0)",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.failures.per_hour, value, 1000);
              }},
    ModelWord{"checkpoint", kSpan, "interval between two checkpoints of a task; 0s: none",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.checkpoints.every, value);
              }},
    ModelWord{"checkpoint_cost", kSpan, "time that writing a checkpoint takes from its work (0s)",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.checkpoints.cost, value);
              }},
    ModelWord{"checkpoint_on_stop", "true or false",
              "a task that is stopped writes a checkpoint first",
              [](RunOptions& options, std::string_view value) {
                options.checkpoints.on_stop = value == "true";
                return value == "true" || value == "false";
              }},
    ModelWord{"stop", kSpan, "time until a stopped task has ended (2s)",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.stopping.takes, value);
              }},
    ModelWord{"progress", kShare, "share of the tasks that print their progress (0)",
              [](RunOptions& options, std::string_view value) {
                return SetNumber(options.progress.share, value, 1);
              }},
    ModelWord{"time_slot", kSpan,
              "run time after which a task is requeued if others wait; 0s: never",
              [](RunOptions& options, std::string_view value) {
                return SetSpan(options.time_slot, value);
              }},
};

}  // namespace

std::span<const ModelWord> ModelWords() {
  return kWords;
}

Result<Unit> SetModelWord(RunOptions& options, std::string_view name, std::string_view value) {
  const auto* word = std::find_if(kWords.begin(), kWords.end(),
                                  [&](const ModelWord& each) { return each.name == name; });
  if (word == kWords.end()) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("unknown word of the model: {}", base::Printable(name, 80)));
  }
  if (word->set(options, value)) return Unit{};
  return Fail(ErrorCode::kInvalid, fmt::format("{}: expected {}, not '{}'", name, word->type,
                                               base::Printable(value, 60)));
}

}  // namespace carma::sim
