// The tasks of one submission. Common parts (an array's description, a batch's environment) are
// stored only once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "task/describe/spec.h"

namespace carma::daemon {

// Approximate memory use of a description in bytes.
std::size_t DescriptionBytes(const task::TaskSpec& spec);

class TaskList {
 public:
  using Environment = std::map<std::string, std::string>;

  TaskList() = default;
  // Independent tasks.
  TaskList(std::vector<task::TaskSpec> specs) : specs_(std::move(specs)) {}
  TaskList(std::initializer_list<task::TaskSpec> specs) : specs_(specs) {}
  // One task per index, all with this description.
  static TaskList Array(task::TaskSpec spec, std::vector<std::int64_t> indices);
  // Tasks whose entry in `shares` is true use the common environment; their own must be empty.
  static TaskList Batch(std::vector<task::TaskSpec> specs, Environment common,
                        std::vector<bool> shares);

  std::size_t size() const { return indices_.empty() ? specs_.size() : indices_.size(); }
  bool empty() const { return size() == 0; }
  // The task's description without the array index and the shared environment.
  const task::TaskSpec& Like(std::size_t i) const { return specs_[indices_.empty() ? i : 0]; }
  // Approximate size of the task's whole description in bytes.
  std::size_t BytesOf(std::size_t i) const;
  // Total size in bytes that the descriptions would have if each were written out in full.
  std::size_t BytesOfAll() const;
  // The complete description of the task.
  task::TaskSpec At(std::size_t i) const;
  // Moves the task's description out of the list, without any environment variables. May be called
  // only once per task.
  task::TaskSpec TakeBare(std::size_t i);

 private:
  std::vector<task::TaskSpec> specs_;  // only one for an array
  std::vector<std::int64_t> indices_;
  std::size_t shared_bytes_ = 0;  // size of the array's description or of the common environment
  Environment common_;
  std::vector<bool> shares_;  // whether each task uses common_; empty if none does
};

}  // namespace carma::daemon
