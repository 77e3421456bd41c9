// Runs expensive calls one at a time, even if a call continues after its function has returned.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace carma::daemon {

// Used by one thread only. Must be created with make_shared.
class SerialExecutor : public std::enable_shared_from_this<SerialExecutor> {
 public:
  // A call is in progress while any copy of its Hold exists.
  using Hold = std::shared_ptr<const void>;
  using Call = std::function<void(Hold)>;

  // Runs the call after all earlier calls have finished, or immediately if none is in progress.
  void Ask(Call call) {
    waiting_.push_back(std::move(call));
    if (!busy_) Next();
  }
  // Number of calls that have not begun yet.
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
