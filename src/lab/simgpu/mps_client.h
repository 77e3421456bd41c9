// A program's side of a simulated MPS: what the CUDA driver does when CUDA_MPS_PIPE_DIRECTORY is
// set.
#pragma once

#include <memory>
#include <string>

#include "lab/simgpu/mps_wire.h"

namespace carma::simgpu {

class MpsClient {
 public:
  // Makes the calling process a client of the server behind this folder, which is started for it if
  // need be. Null: no daemon answers there, the program runs without MPS and says nothing, as real
  // ones do. `refused` says why a daemon or server that is there does not take it; null then too.
  // Blocks as long as the daemon does: a program whose driver hangs hangs.
  static std::unique_ptr<MpsClient> Join(const std::string& pipes, MpsError& refused);
  // Leaves in order.
  ~MpsClient();
  MpsClient(const MpsClient&) = delete;
  MpsClient& operator=(const MpsClient&) = delete;

  const MpsWelcome& welcome() const { return welcome_; }
  // Tells the server which place of which simulated server it serves by this client.
  void Uses(int place, const std::string& state_path) const;
  // From now on news from the server, its end too, raise this signal in this process.
  void RaiseOnNews(int signal) const;
  // What has befallen the client; stays once it is not kNone. Never blocks.
  MpsError Trouble();
  // The client's own kernels broke the context: everybody's.
  void AnnounceFault() const;

 private:
  MpsClient(base::LineSocket socket, MpsWelcome welcome)
      : socket_(std::move(socket)), welcome_(std::move(welcome)) {}
  base::LineSocket socket_;
  MpsWelcome welcome_;
  MpsError trouble_ = MpsError::kNone;
};

}  // namespace carma::simgpu
