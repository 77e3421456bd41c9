// A fake daemon for tests of the command. It has a real socket, but the test supplies its
// responses.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/http.h"
#include "cli/command.h"

namespace carma::cli {

class FakeDaemon {
 public:
  using Route = std::function<api::Response(const api::Request&)>;

  FakeDaemon();
  ~FakeDaemon();

  // method_and_path: "GET /v1/tasks/42". The route is called in the daemon's own thread. Requests
  // without a route get a 404 response.
  void On(const std::string& method_and_path, Route route);
  const std::string& socket_path() const { return socket_path_; }
  const std::string& dir() const { return dir_; }
  // All requests in order of arrival: "POST /v1/tasks?check=1 {body}".
  std::vector<std::string> requests() const;

 private:
  struct Loop;
  void Handle(api::Request request, api::Responder respond);

  std::string dir_;
  std::string socket_path_;
  mutable std::mutex mutex_;
  std::map<std::string, Route> routes_;
  std::vector<std::string> requests_;
  std::unique_ptr<Loop> loop_;
};

// The result of one run of the command.
struct Ran {
  int exit_code = 0;
  std::string out;
  std::string err;
};
// Runs `carma WORDS…` against the socket. input: a file used as standard input.
Ran RunWords(const std::string& socket_path, std::vector<std::string> words,
             const std::string& input = "", const Program& program = ServerProgram());

}  // namespace carma::cli
