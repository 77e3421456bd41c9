// Calls that take too much to be under way at the same time.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace carma::daemon {

// One thread; made by make_shared.
class SerialExecutor : public std::enable_shared_from_this<SerialExecutor> {
 public:
  // Whoever holds a copy is under way still.
  using Hold = std::shared_ptr<const void>;
  using Call = std::function<void(Hold)>;

  // Calls once all that were asked before are over; at once, if they are.
  void Ask(Call call) {
    waiting_.push_back(std::move(call));
    if (!busy_) Next();
  }
  // That have not begun.
  std::size_t waiting() const { return waiting_.size(); }

 private:
  void Next() {
    busy_ = !waiting_.empty();
    if (!busy_) return;
    const Call call = std::move(waiting_.front());
    waiting_.pop_front();
    call(Hold(this, [self = weak_from_this()](const SerialExecutor*) {
      if (const auto alive = self.lock()) alive->Next();
    }));
  }

  std::deque<Call> waiting_;
  bool busy_ = false;
};

}  // namespace carma::daemon
