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
    return true;
  }
  places.waiting.insert(task.id);
  return false;
}

std::optional<TaskId> Arrays::Leave(const TaskRecord& task) {
  if (!task.request->array) return std::nullopt;
  const auto at = arrays_.find(*task.request->array);
  if (at == arrays_.end()) return std::nullopt;
  Places& places = at->second;
  places.waiting.erase(task.id);
  std::optional<TaskId> next;
  if (places.admitted.erase(task.id) > 0 && !places.waiting.empty()) {
    next = *places.waiting.begin();
    places.waiting.erase(places.waiting.begin());
  }
  if (places.admitted.empty() && places.waiting.empty()) arrays_.erase(at);
  return next;
}

}  // namespace carma::core
