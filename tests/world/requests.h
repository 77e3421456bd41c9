// Sends valid and invalid requests to the world's server, as people and programs would: listings,
// explanations, edits, state changes and submissions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::world {

// This object is rebuilt each time the daemon starts.
class Requests {
 public:
  Requests(daemon::Engine& engine, store::Store& store, base::Clock& clock);

  // Makes one request, chosen by `a` and `b`.
  void Ask(std::uint64_t a, std::uint64_t b);
  // The first wrong response; empty if all were correct.
  std::string Wrong() const { return *wrong_; }

 private:
  api::Responder Heard(const std::string& what, bool hostile);

  config::Settings settings_;
  daemon::Monitor monitor_;
  daemon::SharedServices services_;
  // Shared, because a response may arrive after the daemon is gone.
  std::shared_ptr<std::string> wrong_ = std::make_shared<std::string>();
};

}  // namespace carma::world
