// The tasks of one submission. What they share is held once, however many they are: the whole
// description of an array, the environment of a batch.
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

// About what a description takes in memory.
std::size_t DescriptionBytes(const task::TaskSpec& spec);

class TaskList {
 public:
  using Environment = std::map<std::string, std::string>;

  TaskList() = default;
  // Each for itself.
  TaskList(std::vector<task::TaskSpec> specs) : specs_(std::move(specs)) {}
  TaskList(std::initializer_list<task::TaskSpec> specs) : specs_(specs) {}
  // One description for each index.
  static TaskList Array(task::TaskSpec spec, std::vector<std::int64_t> indices);
  // The common environment is that of the tasks for which `shares` says so; theirs are empty.
  static TaskList Batch(std::vector<task::TaskSpec> specs, Environment common,
                        std::vector<bool> shares);

  std::size_t size() const { return indices_.empty() ? specs_.size() : indices_.size(); }
  bool empty() const { return size() == 0; }
  // The task but for its index in an array and an environment that it shares.
  const task::TaskSpec& Like(std::size_t i) const { return specs_[indices_.empty() ? i : 0]; }
  // About the bytes of its whole description.
  std::size_t BytesOf(std::size_t i) const;
  // Of all descriptions, as they are written one by one.
  std::size_t BytesOfAll() const;
  // All of it.
  task::TaskSpec At(std::size_t i) const;
  // Takes it out, without any environment. Not to be asked for again.
  task::TaskSpec TakeBare(std::size_t i);

 private:
  std::vector<task::TaskSpec> specs_;  // of an array one
  std::vector<std::int64_t> indices_;
  std::size_t shared_bytes_ = 0;  // of an array's description, or of the common environment
  Environment common_;
  std::vector<bool> shares_;  // empty: nobody does
};

}  // namespace carma::daemon
