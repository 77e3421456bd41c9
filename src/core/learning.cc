// What is learned from running tasks: by their own promises, and by those of their kind that wait.
#include <algorithm>

#include "core/scheduler_state.h"

namespace carma::core {

Time Scheduler::State::PlateauFrom(Time at) const {
  return config.plateau_after ? at - *config.plateau_after : Time::min();
}

// Most samples bring nothing new: residents are gone through only when the next one is due.
void Scheduler::State::LearnPlateaus() {
  if (!next_plateau || now < *next_plateau) return;
  next_plateau.reset();
  if (!config.plateau_after) return;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    for (const Resident& resident : ledger.ResidentsOf(GpuIndex{i})) {
      if (!resident.memory.since()) continue;
      const Time due = *resident.memory.since() + *config.plateau_after;
      if (due > now) {
        next_plateau = std::min(next_plateau.value_or(due), due);
      } else if (const auto peak_mib = ledger.PlateauOf(resident.task, PlateauFrom(now))) {
        lessons.Enough(tasks.at(resident.task), NeedAfterPlateau(*peak_mib));
      }
    }
  }
}

std::optional<std::int64_t> Scheduler::State::TaughtMib(const TaskRecord& task) const {
  if (!config.plateau_after || !config.use_given_memory) return std::nullopt;
  const Lesson* lesson = lessons.Of(task);
  if (lesson == nullptr) return std::nullopt;
  std::int64_t taught_mib = std::max(lesson->enough_mib, lesson->at_least_mib);
  // What a person states may be meant for what is still to come; a prediction gives way.
  const bool predicted = !task.estimate || task.estimate->predicted_mib;
  if (task.estimate && (lesson->enough_mib == 0 || !predicted))
    taught_mib = std::max(taught_mib, task.estimate->peak_mib);
  const std::int64_t most_mib = MostFor(task.request.gpus);
  return most_mib > 0 ? std::min(taught_mib, most_mib) : taught_mib;
}

Need Scheduler::State::NeedNow(const TaskRecord& task) const {
  Need need = NeedOf(config, task);
  if (const std::optional<std::int64_t> taught_mib = TaughtMib(task)) need.memory_mib = taught_mib;
  return need;
}

}  // namespace carma::core
