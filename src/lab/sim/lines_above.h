// Who waits above the servers, and who of them goes first: by submission, or by what their users
// have taken (core/fair_share.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/books/fair_share.h"

namespace carma::sim {

class LinesAbove {
 public:
  // One that waits. Numbers rise with the submissions.
  struct Waiting {
    std::uint64_t number = 0;
    std::uint32_t job = 0;
    std::uint32_t uid = 0;
    double rate = 0;  // whole GPUs at once, if it were started
  };

  explicit LinesAbove(core::QueueOrder order) : order_(order) {}

  // user: the name of the uid, for its weight. In its place by number, also when it comes back.
  void Add(const Waiting& waiting, const std::string& user);
  void Remove(std::uint32_t uid, std::uint64_t number);
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }

  // The first `most` of them, in order. By fair order as in a server's own line
  // (docs/server/policies.md): the user with the least share goes first, what runs and what is
  // passed on counting as if it ran an hour longer.
  std::vector<Waiting> First(std::size_t most, const core::FairShare& shares, core::Time now) const;

 private:
  struct Line {
    std::string user;
    std::map<std::uint64_t, Waiting> waiting;
  };
  core::QueueOrder order_;
  std::map<std::uint32_t, Line> lines_;  // by user; one of all where order counts nobody's shares
  std::size_t count_ = 0;
};

}  // namespace carma::sim
