#include "core/books/lessons.h"

#include <algorithm>

#include "core/values/task.h"

namespace carma::core {

Lessons::Key Lessons::KeyOf(const TaskRecord& task) {
  return {task.request->uid, task.kind};
}

void Lessons::Join(const TaskRecord& task) {
  if (task.kind == KindId{}) return;
  ++kinds_[KeyOf(task)].tasks;
  ++tasks_;
}

void Lessons::Leave(const TaskRecord& task) {
  const auto kind = kinds_.find(KeyOf(task));
  if (kind == kinds_.end()) return;
  --tasks_;
  if (--kind->second.tasks == 0) kinds_.erase(kind);
}

Lesson* Lessons::LessonFor(const TaskRecord& task) {
  const auto kind = kinds_.find(KeyOf(task));
  if (kind == kinds_.end()) return nullptr;
  ++changes_;
  return &kind->second.lesson;
}

void Lessons::Enough(const TaskRecord& task, std::int64_t need_mib) {
  if (Lesson* lesson = LessonFor(task)) lesson->enough_mib = std::max(lesson->enough_mib, need_mib);
}

void Lessons::OthersShare(const TaskRecord& task, double share) {
  if (Lesson* lesson = LessonFor(task))
    lesson->others_share = std::max(lesson->others_share.value_or(0), share);
}

void Lessons::Activity(const TaskRecord& task, double sm_active) {
  if (Lesson* lesson = LessonFor(task)) lesson->sm_active = sm_active;
}

// Later values can only be higher and cannot let another task start, so only the first value counts
// as a change.
void Lessons::Cpus(const TaskRecord& task, double cpus) {
  const auto kind = kinds_.find(KeyOf(task));
  if (kind == kinds_.end()) return;
  std::optional<double>& known = kind->second.lesson.cpus;
  if (!known) ++changes_;
  known = std::max(known.value_or(0), cpus);
}

void Lessons::Alone(const TaskRecord& task, double alone_s) {
  const auto kind = kinds_.find(KeyOf(task));
  if (kind != kinds_.end()) kind->second.lesson.alone_s = alone_s;
}

void Lessons::AtLeast(const TaskRecord& task, std::int64_t demand_mib) {
  Lesson* lesson = LessonFor(task);
  if (lesson == nullptr) return;
  lesson->at_least_mib = std::max(lesson->at_least_mib, demand_mib);
  lesson->others_share = 1;  // it is unknown which of the task's GPUs ran out of memory
}

void Lessons::Succeeded(const TaskRecord& task, std::int64_t need_mib) {
  const Lesson* known = Of(task);
  if (known != nullptr && known->at_least_mib > need_mib)
    LessonFor(task)->at_least_mib = need_mib + (known->at_least_mib - need_mib) / 2;
}

const Lesson* Lessons::Of(const TaskRecord& task) const {
  const auto kind = kinds_.find(KeyOf(task));
  if (kind == kinds_.end() || kind->second.lesson == Lesson{}) return nullptr;
  return &kind->second.lesson;
}

}  // namespace carma::core
