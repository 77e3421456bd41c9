#include "daemon/engine/task_list.h"

namespace carma::daemon {

namespace {

// Assumes that each variable is stored as a map node with two strings.
std::size_t EnvironmentBytes(const TaskList::Environment& environment) {
  constexpr std::size_t kVariable = 2 * sizeof(std::string) + 64;
  std::size_t bytes = 0;
  for (const auto& [name, value] : environment) bytes += kVariable + name.size() + value.size();
  return bytes;
}

}  // namespace

std::size_t DescriptionBytes(const task::TaskSpec& spec) {
  std::size_t bytes = sizeof spec + spec.script.value_or("").size() +
                      spec.dependencies.size() * sizeof(core::Dependency) +
                      EnvironmentBytes(spec.environment);
  for (const auto* words : {&spec.command, &spec.script_args}) {
    for (const std::string& word : *words) bytes += sizeof word + word.size();
  }
  for (const task::TrainingWord& word : spec.training)
    bytes += sizeof word + word.name.size() + word.value.size() + word.from.size();
  return bytes;
}

TaskList TaskList::Array(task::TaskSpec spec, std::vector<std::int64_t> indices) {
  TaskList list;
  list.shared_bytes_ = DescriptionBytes(spec);
  list.specs_.push_back(std::move(spec));
  list.indices_ = std::move(indices);
  return list;
}

TaskList TaskList::Batch(std::vector<task::TaskSpec> specs, Environment common,
                         std::vector<bool> shares) {
  TaskList list(std::move(specs));
  list.shared_bytes_ = EnvironmentBytes(common);
  list.common_ = std::move(common);
  list.shares_ = std::move(shares);
  return list;
}

std::size_t TaskList::BytesOf(std::size_t i) const {
  if (!indices_.empty()) return shared_bytes_;
  const bool shares = !shares_.empty() && shares_[i];
  return DescriptionBytes(specs_[i]) + (shares ? shared_bytes_ : 0);
}

std::size_t TaskList::BytesOfAll() const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < size(); ++i) bytes += BytesOf(i);
  return bytes;
}

task::TaskSpec TaskList::At(std::size_t i) const {
  task::TaskSpec spec = Like(i);
  if (!indices_.empty()) spec.array_index = indices_[i];
  if (!shares_.empty() && shares_[i]) spec.environment = common_;
  return spec;
}

task::TaskSpec TaskList::TakeBare(std::size_t i) {
  if (indices_.empty()) {
    specs_[i].environment.clear();
    return std::move(specs_[i]);
  }
  task::TaskSpec bare = specs_.front();
  bare.environment.clear();
  bare.array_index = indices_[i];
  return bare;
}

}  // namespace carma::daemon
