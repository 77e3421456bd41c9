// The cluster's queue and its order: by submission, or by users' usage (core/books/fair_share.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/books/fair_share.h"

namespace carma::sim {

class LinesAbove {
 public:
  // A waiting task. Numbers follow the order of submission.
  struct Waiting {
    std::uint64_t number = 0;
    std::uint32_t job = 0;
    std::uint32_t uid = 0;
    double rate = 0;  // number of GPUs that the task would occupy
  };

  LinesAbove(core::QueueOrder order, const core::FairRules& rules)
      : order_(order), shares_(rules) {}

  // user: the name of user `uid`, for looking up the user's weight. A returning task keeps its
  // number, so it gets its old position back.
  void Add(const Waiting& waiting, const std::string& user);
  void Remove(std::uint32_t uid, std::uint64_t number);
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }

  // The first `most` waiting tasks. In fair order, the user with the smallest share goes first, as
  // in a server's own queue (docs/server/policies.md). Running tasks and the tasks already in the
  // result count as if they would run for another hour.
  std::vector<Waiting> First(std::size_t most, core::Time now) const;

  // Charges the user at this rate for the GPUs that the task holds, from now until Release().
  void Take(const core::TaskRecord& task, double rate, core::Time now) {
    shares_.Take(task, rate, now, now);
  }
  void Release(core::TaskId task, core::Time now) { shares_.Release(task, now, now); }
  std::size_t taking() const { return shares_.taking(); }

 private:
  struct Line {
    std::string user;
    std::map<std::uint64_t, Waiting> waiting;
  };
  core::QueueOrder order_;
  core::FairShare shares_;
  std::map<std::uint32_t, Line> lines_;  // by user; a single queue unless the order is fair
  std::size_t count_ = 0;
};

}  // namespace carma::sim
