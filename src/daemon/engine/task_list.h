// The tasks of one submission. Common parts are held only once: the whole description of an array,
// the environment of a batch.
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

// Approximate memory use of a description.
std::size_t DescriptionBytes(const task::TaskSpec& spec);

class TaskList {
 public:
  using Environment = std::map<std::string, std::string>;

  TaskList() = default;
  // Independent tasks.
  TaskList(std::vector<task::TaskSpec> specs) : specs_(std::move(specs)) {}
  TaskList(std::initializer_list<task::TaskSpec> specs) : specs_(specs) {}
  // One description for each index.
  static TaskList Array(task::TaskSpec spec, std::vector<std::int64_t> indices);
  // Tasks marked in `shares` have an empty environment of their own and use the common one.
  static TaskList Batch(std::vector<task::TaskSpec> specs, Environment common,
                        std::vector<bool> shares);

  std::size_t size() const { return indices_.empty() ? specs_.size() : indices_.size(); }
  bool empty() const { return size() == 0; }
  // The task without its array index and without the shared environment.
  const task::TaskSpec& Like(std::size_t i) const { return specs_[indices_.empty() ? i : 0]; }
  // Approximate size of its whole description in bytes.
  std::size_t BytesOf(std::size_t i) const;
  // Total size if all descriptions were written out.
  std::size_t BytesOfAll() const;
  // The complete description.
  task::TaskSpec At(std::size_t i) const;
  // Moves it out, without any environment. Call it once per task.
  task::TaskSpec TakeBare(std::size_t i);

 private:
  std::vector<task::TaskSpec> specs_;  // a single one for an array
  std::vector<std::int64_t> indices_;
  std::size_t shared_bytes_ = 0;  // of the array's description or common environment
  Environment common_;
  std::vector<bool> shares_;  // empty: none does
};

}  // namespace carma::daemon
