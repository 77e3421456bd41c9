// Simulated MPS servers for the randomised test in this folder.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/mps_servers.h"

namespace carma::world {

using Key = std::pair<core::TaskId, int>;  // task and attempt

// MPS servers that start, fail to start or hang, as the steps dictate.
class Servers : public daemon::MpsServers {
 public:
  explicit Servers(std::function<void(const std::string&)> note) : note_(std::move(note)) {}

  // Answers the oldest request.
  void Answer(bool well) {
    if (asked_.empty()) return;
    const auto [key, answer] = std::move(asked_.front());
    asked_.pop_front();
    if (!well) clients_.erase(key);
    answer(well ? Result<daemon::MpsPlace>(daemon::MpsPlace{})
                : Fail(ErrorCode::kUnavailable, "the MPS server did not start"));
  }
  void AnswerAll() {
    while (!asked_.empty()) Answer(true);
    for (const auto& call : std::exchange(terminated_, {})) call();
  }
  // True if a client's removal has been requested but not yet confirmed.
  bool Terminating() const { return !terminated_.empty(); }
  // Attempts that hold or request a client slot.
  const std::set<Key>& clients() const { return clients_; }
  bool IsAsked(const Key& key) const {
    return std::ranges::any_of(asked_, [&](const auto& each) { return each.first == key; });
  }

  void Attach(const daemon::MpsClient& client, Attached answer) override {
    const Key key{client.id, client.attempt};
    if (!clients_.insert(key).second)
      note_(fmt::format("task {} asks its MPS server twice", client.id));
    asked_.emplace_back(key, std::move(answer));
  }
  void Adopt(const daemon::MpsClient& client) override {
    if (!clients_.insert({client.id, client.attempt}).second)
      note_(fmt::format("task {} is adopted by its MPS server twice", client.id));
  }
  void Detach(core::TaskId id, int attempt) override {
    clients_.erase({id, attempt});
    if (blamed_ == id) blamed_.reset();
  }
  void TerminateClients(core::TaskId, int, std::function<bool(pid_t)>,
                        std::function<void()> done) override {
    terminated_.push_back(std::move(done));
  }
  void AskEvidence(core::TaskId id, int, std::function<void(daemon::MpsEvidence)> answer) override {
    daemon::MpsEvidence evidence;
    if (blamed_ != id) evidence.blamed = blamed_;
    answer(evidence);
  }
  void Blame(core::TaskId id, int) override { blamed_ = id; }
  void Seen(core::TaskId, int, const std::vector<pid_t>&) override {}
  std::vector<std::string> Troubles() const override { return {}; }
  void EndOnClosedGpus() override {}
  void TakeOver(const std::vector<std::string>&) override {}
  void Close() override {}

 private:
  std::function<void(const std::string&)> note_;
  std::deque<std::pair<Key, Attached>> asked_;
  std::vector<std::function<void()>> terminated_;
  std::set<Key> clients_;
  std::optional<core::TaskId> blamed_;
};

}  // namespace carma::world
