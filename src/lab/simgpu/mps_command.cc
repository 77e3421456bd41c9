// The part of carma-simmps that sends commands to the control daemon, and the misbehaviour of both
// programs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "lab/simgpu/mps_control.h"

namespace carma::simgpu {
namespace {

constexpr const char* kNoDaemon = "Cannot find MPS control daemon process";
constexpr auto kUntilAnswered = std::chrono::hours(24 * 365);

int PrintAnswer(base::LineSocket& daemon) {
  while (true) {
    const Result<std::string> line = daemon.Receive(kUntilAnswered);
    std::fflush(stdout);
    if (!line) return FailWith(kNoDaemon);
    if (*line == kMpsAnswerEnd) return 0;
    if (*line == kMpsFailed) return 1;
    std::puts(line->c_str());
  }
}

std::string BehaviourWords(const MpsFolders& folders) {
  std::string words = base::GetEnv(kMpsBehaviourVariable) + " ";
  words += base::ReadFile(folders.BehaviourFile(), kMaxMpsLine).value_or("");
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == ',' || c == '\n'; }, ' ');
  return words;
}

}  // namespace

bool MpsBehaves(const MpsFolders& folders, std::string_view word) {
  const std::string words = BehaviourWords(folders);
  const std::vector<std::string_view> pieces = base::SplitWords(words);
  return std::ranges::find(pieces, word) != pieces.end();
}

int RunMpsCommand(const MpsFolders& folders, const std::string& command) {
  if (command.size() > kMaxMpsLine - 16) return FailWith("the command is too long");
  Result<base::LineSocket> daemon = ConnectTo(folders.Privileged());
  if (!daemon || !daemon->Send("command " + command)) return FailWith(kNoDaemon);
  return PrintAnswer(*daemon);
}

int RunMpsCommands(const MpsFolders& folders) {
  char* line = nullptr;
  std::size_t room = 0;
  int code = 0;
  while (code == 0 && ::getline(&line, &room, stdin) > 0) {
    const std::string command(base::Trim(line));
    if (!command.empty()) code = RunMpsCommand(folders, command);
  }
  std::free(line);
  return code;
}

}  // namespace carma::simgpu
