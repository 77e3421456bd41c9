// What people and programs ask of the world's server: lists, reasons, edits, changes, submissions;
// ordinary ones and such as nobody should send.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/endpoints/submit.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::world {

// Of one life of the daemon.
class Requests {
 public:
  Requests(daemon::Engine& engine, store::Store& store, base::Clock& clock);

  // One request, as `a` and `b` say.
  void Ask(std::uint64_t a, std::uint64_t b);
  // What no answer may be; empty: all were as they should be.
  std::string Wrong() const { return *wrong_; }

 private:
  api::Responder Heard(const std::string& what, bool hostile);

  config::Settings settings_;
  daemon::Monitor monitor_;
  daemon::TaskServices tasks_;
  daemon::SubmitServices submit_;
  // An answer may come when the daemon has gone.
  std::shared_ptr<std::string> wrong_ = std::make_shared<std::string>();
};

}  // namespace carma::world
