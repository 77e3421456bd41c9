// Chooses GPUs for tasks and starts the tasks.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

class PassLine;  // core/scheduler/line.h

bool IsExclusive(const State& state, const Resident& resident);
GpuView ViewOf(const State& state, GpuIndex gpu, Time at);
std::vector<GpuView> Views(const State& state, Time at);
std::optional<Reason> NeverFits(const State& state, const TaskRequest& request,
                                const std::optional<Estimate>& estimate);
Choice Chosen(const State& state, const TaskRecord& task, const std::vector<GpuView>& best,
              std::size_t eligible, std::string_view rule);
std::optional<Choice> ChooseIdle(const State& state, const TaskRecord& task,
                                 const std::vector<GpuView>& views);
std::optional<Choice> ChooseByPolicy(State& state, const TaskRecord& task,
                                     const std::vector<GpuView>& views);
void Start(State& state, TaskRecord& task, Choice choice);
bool TryStart(State& state, TaskId id, std::vector<GpuView>& views);
// Updates the views of all GPUs after a task has started on the GPUs in `taken`.
void Refresh(const State& state, const std::vector<Placement>& taken, std::vector<GpuView>& views);
std::vector<TaskId> ConflictingTasks(const State& state, const Reservation& booking, GpuIndex gpu);
void SettleReservations(State& state);
// Starts tasks from the recovery queue, then from the main queue.
void StartWhatFits(State& state, PassLine& line);

}  // namespace carma::core
