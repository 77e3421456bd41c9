#include "core/queue/arrays.h"

#include <utility>

#include "core/values/task.h"

namespace carma::core {

bool Arrays::Admit(const TaskRecord& task) {
  if (!task.request->array || task.request->array_limit == 0) return true;
  Places& places = arrays_[*task.request->array];
  if (places.admitted.contains(task.id)) return true;
  if (std::cmp_less(places.admitted.size(), task.request->array_limit)) {
    places.admitted.insert(task.id);
    places.waiting.erase(task.id);
    return true;
  }
  places.waiting.insert(task.id);
  return false;
}

void Arrays::Leave(const TaskRecord& task) {
  if (!task.request->array) return;
  const auto at = arrays_.find(*task.request->array);
  if (at == arrays_.end()) return;
  at->second.waiting.erase(task.id);
  at->second.admitted.erase(task.id);
  if (at->second.admitted.empty() && at->second.waiting.empty()) arrays_.erase(at);
}

std::optional<TaskId> Arrays::Next(const TaskRecord& task) const {
  if (!task.request->array) return std::nullopt;
  const auto at = arrays_.find(*task.request->array);
  const bool has_room = at != arrays_.end() && !at->second.waiting.empty() &&
                        std::cmp_less(at->second.admitted.size(), task.request->array_limit);
  return has_room ? std::optional(*at->second.waiting.begin()) : std::nullopt;
}

}  // namespace carma::core
