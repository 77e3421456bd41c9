// A set of task ids, fast enough for thousands of insertions and lookups per decision. It occupies
// one block of memory, and its order is not observable. Private to core.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/values/ids.h"

namespace carma::core {

class TaskSet {
 public:
  // Reserves space for `most` ids. The contents are unchanged.
  void Reserve(std::size_t most) {
    if (2 * most > slots_.size()) Grow(std::bit_ceil(2 * most));
  }
  void Clear() {
    slots_.clear();
    size_ = 0;
  }
  void Insert(TaskId task) {
    Reserve(size_ + 1);
    const std::size_t at = PlaceOf(KeptAs(task));
    if (slots_[at] != kNobody) return;
    slots_[at] = KeptAs(task);
    ++size_;
  }
  bool Contains(TaskId task) const { return size_ > 0 && slots_[PlaceOf(KeptAs(task))] != kNobody; }
  void Erase(TaskId task) {
    if (!Contains(task)) return;
    std::size_t gap = PlaceOf(KeptAs(task));
    // If the gap would make a later id unreachable, that id moves into the gap.
    for (std::size_t at = Next(gap); slots_[at] != kNobody; at = Next(at)) {
      const std::size_t first = FirstFor(slots_[at]);
      if (((at - first) & Mask()) < ((at - gap) & Mask())) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = kNobody;
    --size_;
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::uint64_t kNobody = 0;

  static std::uint64_t KeptAs(TaskId task) { return Number(task) + 1; }
  std::size_t Mask() const { return slots_.size() - 1; }
  std::size_t Next(std::size_t at) const { return (at + 1) & Mask(); }
  // Ids are hashed, because consecutive ids would otherwise fill long runs of slots.
  std::size_t FirstFor(std::uint64_t kept) const {
    return (kept * 0x9e3779b97f4a7c15) >> 32 & Mask();
  }
  // Position of the id, or where it would be inserted.
  std::size_t PlaceOf(std::uint64_t kept) const {
    std::size_t at = FirstFor(kept);
    while (slots_[at] != kNobody && slots_[at] != kept) at = Next(at);
    return at;
  }
  void Grow(std::size_t slots) {
    const std::vector<std::uint64_t> before =
        std::exchange(slots_, std::vector<std::uint64_t>(slots, kNobody));
    for (const std::uint64_t kept : before) {
      if (kept != kNobody) slots_[PlaceOf(kept)] = kept;
    }
  }

  std::vector<std::uint64_t> slots_;  // their number is a power of two, and at least half are free
  std::size_t size_ = 0;
};

}  // namespace carma::core
