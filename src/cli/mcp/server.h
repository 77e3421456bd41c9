// A server of the Model Context Protocol for agents: each tool is one call of `carma`. Does not
// depend on processes or streams.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::cli {

struct McpRan {
  int exit_code = 0;
  std::string text;  // its output, including errors
};

class McpServer {
 public:
  // run: `carma WORDS…`. changes: also offers the tools submit and cancel.
  using Run = std::function<McpRan(const std::vector<std::string>& words)>;
  McpServer(Run run, bool changes, std::string version);

  // The answer to one message, a line of JSON-RPC 2.0; empty for a notification, which has no
  // answer.
  std::optional<std::string> Answer(std::string_view line) const;

 private:
  Run run_;
  bool changes_;
  std::string version_;
};

}  // namespace carma::cli
