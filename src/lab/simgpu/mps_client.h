// The client side of the simulated MPS. It acts like the CUDA driver when CUDA_MPS_PIPE_DIRECTORY
// is set.
#pragma once

#include <memory>
#include <string>

#include "lab/simgpu/mps_wire.h"

namespace carma::simgpu {

class MpsClient {
 public:
  // Connects the calling process to the MPS server of this pipe directory, starting the server if
  // necessary. Returns null if no daemon answers; the program then runs without MPS, as a real
  // program would. Returns null and sets `refused` if the daemon or server rejects the client.
  // Blocks while the daemon hangs. partition: CUDA_MPS_SM_PARTITION, or empty.
  static std::unique_ptr<MpsClient> Join(const std::string& pipes, const std::string& partition,
                                         MpsError& refused);
  // Disconnects from the server cleanly.
  ~MpsClient() { socket_.Send("bye"); }
  MpsClient(const MpsClient&) = delete;
  MpsClient& operator=(const MpsClient&) = delete;

  const MpsWelcome& welcome() const { return welcome_; }
  // Tells the MPS server which GPU or MIG instance this client uses, and on which simulated server.
  void Uses(int place, const std::string& state_path) const {
    socket_.Send("uses " + std::to_string(place) + " " + state_path);
  }
  // Raises this signal in this process when the server sends a message or exits.
  void RaiseOnNews(int signal) const;
  // The client's error; permanent once it is not kNone. Never blocks.
  MpsError Trouble();
  // Reports that this client's kernels have broken the context that all clients share.
  void AnnounceFault() const;

 private:
  MpsClient(base::LineSocket socket, MpsWelcome welcome)
      : socket_(std::move(socket)), welcome_(std::move(welcome)) {}
  base::LineSocket socket_;
  MpsWelcome welcome_;
  MpsError trouble_ = MpsError::kNone;
};

}  // namespace carma::simgpu
