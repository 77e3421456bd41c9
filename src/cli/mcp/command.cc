// `carma mcp`: serves the Model Context Protocol over this process's standard streams.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/mcp/server.h"
#include "task/process/bounded_run.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMostText = 100'000;

McpRan RunWords(const Context& context, const std::vector<std::string>& words) {
  task::RunRequest request;
  request.words = {"/proc/self/exe"};
  if (!context.socket_path.empty()) request.words.push_back("--socket=" + context.socket_path);
  request.words.insert(request.words.end(), words.begin(), words.end());
  std::error_code ignored;
  request.folder = std::filesystem::current_path(ignored);
  request.kept = kMostText;
  request.limit = std::chrono::seconds(120);
  const auto ran = task::RunBounded(request);
  if (!ran) return {1, ran.error().message};
  McpRan answer{ran->late ? 1 : ran->exit_code, ran->output + ran->errors};
  if (ran->late) answer.text += "\nstopped after two minutes";
  if (ran->signal != 0) answer.exit_code = 1;
  return answer;
}

void Serve(Context& context, bool changes) {
  const McpServer server(
      [&](const std::vector<std::string>& words) { return RunWords(context, words); }, changes,
      context.version);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::optional<std::string> answer = server.Answer(line);
    if (!answer) continue;
    Print(context, *answer + "\n");
    if (std::fflush(context.out) != 0) return;  // nothing reads the output any more
  }
}

}  // namespace

void AddMcpCommand(Syntax app, Context& context) {
  auto changes = std::make_shared<bool>(false);
  const Syntax verb = app.AddVerb(
      "mcp", "Serve AI agents through the Model Context Protocol over standard input and output");
  verb.Footer(
      "Tools: list, gpus, show, explain, logs, preview, estimate; with --allow-changes also\n"
      "submit and cancel. Each tool runs carma once, with the user's permissions.\n"
      "  claude mcp add carma -- carma mcp\n"
      "Every verb also takes --json and --socket PATH.");
  verb.AddFlag("--allow-changes", *changes, "also offer the tools that submit and cancel tasks");
  verb.OnRun([&context, changes] { Serve(context, *changes); });
}

}  // namespace carma::cli
