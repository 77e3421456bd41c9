// A simulated GPU server with its own CARMA daemon. Both live in a folder that is removed with this
// object.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "report/report.h"

namespace carma::cli {

class DemoServer {
 public:
  // folder: an absolute path that does not exist yet. It must be short, because the folder will
  // contain sockets. configuration: additional lines of the configuration file. Errors contain the
  // programs' output.
  static Result<std::unique_ptr<DemoServer>> Start(const std::string& folder, double speed,
                                                   const std::string& configuration);
  // Cancels running tasks and stops the daemon.
  ~DemoServer();
  DemoServer(const DemoServer&) = delete;
  DemoServer& operator=(const DemoServer&) = delete;

  // Submits the trace's tasks at their submission times, in the background.
  Result<Unit> Replay(const std::vector<std::string>& options);
  // Returns false once all of the trace's tasks have ended. Errors contain the replay's output.
  Result<bool> Replays();
  Result<report::Report> Report(const std::string& label);
  api::Client& client() { return context_.client(); }

 private:
  explicit DemoServer(std::string folder) : folder_(std::move(folder)) {
    context_.socket_path = folder_ + "/socket";
  }
  Result<Unit> Run(std::vector<std::string> words) const;
  Result<pid_t> Begin(std::vector<std::string> words, const std::string& log) const;
  base::Error Failure(const std::string& what, const std::string& log) const;

  std::string folder_;
  Context context_;
  pid_t daemon_ = 0;
  pid_t replay_ = 0;
};

}  // namespace carma::cli
