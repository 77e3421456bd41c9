// A Model Context Protocol server for agents. Each tool call runs `carma` once, through a function
// that the caller provides. The server itself starts no processes and uses no streams.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::cli {

struct McpRan {
  int exit_code = 0;
  std::string text;  // the command's output, including errors
};

class McpServer {
 public:
  using Run = std::function<McpRan(const std::vector<std::string>& words)>;
  // run: runs `carma WORDS…`. changes: also offer the submit and cancel tools.
  McpServer(Run run, bool changes, std::string version);

  // Answers one message, a line of JSON-RPC 2.0. Returns empty for a notification, which has no
  // response.
  std::optional<std::string> Answer(std::string_view line) const;

 private:
  Run run_;
  bool changes_;
  std::string version_;
};

}  // namespace carma::cli
