#include "base/process_id.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace carma::base {

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  const UniqueFd fd(
      ::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  char buffer[2048];
  const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
  if (n <= 0) return std::nullopt;
  const std::string_view text(buffer, static_cast<std::size_t>(n));
  // The command name is in parentheses and may itself contain spaces and parentheses, so it extends
  // to the last ')'.
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> words = SplitWords(text.substr(close + 1));
  if (words.size() < 20) return std::nullopt;
  ProcessStat stat;
  stat.command = std::string(text.substr(open + 1, close - open - 1));
  stat.state = words[0][0];
  stat.parent = static_cast<pid_t>(ParseInt(words[1]).value_or(0));
  stat.group = static_cast<pid_t>(ParseInt(words[2]).value_or(0));
  stat.session = static_cast<pid_t>(ParseInt(words[3]).value_or(0));
  stat.threads = static_cast<int>(ParseInt(words[17]).value_or(0));
  stat.id = {pid, static_cast<std::uint64_t>(ParseInt(words[19]).value_or(0))};
  if (words.size() > 49 && stat.state == 'Z') {  // "exit_code" is field 52 of proc(5)
    if (const std::optional<std::int64_t> status = ParseInt(words[49]))
      stat.exit_status = static_cast<int>(*status);
  }
  return stat;
}

std::string CgroupOf(pid_t pid) {
  return NamedLine("/proc/" + std::to_string(pid) + "/cgroup", "0::");
}

ProcessId SelfProcess() {
  const std::optional<ProcessStat> stat = ReadProcessStat(::getpid());
  return stat ? stat->id : ProcessId{::getpid(), 0};
}

bool Alive(const ProcessId& id) {
  const std::optional<ProcessStat> stat = ReadProcessStat(id.pid);
  return stat && stat->id == id && !stat->dead();
}

std::string HiddenProcesses(std::string_view mounts) {
  for (std::string_view line : Split(mounts, '\n')) {
    const std::vector<std::string_view> words = SplitWords(line);
    if (words.size() < 4 || words[1] != "/proc") continue;
    for (std::string_view option : Split(words[3], ',')) {
      if (option.starts_with("hidepid=") && option != "hidepid=0" && option != "hidepid=off")
        return std::string(option);
    }
  }
  return "";
}

// Cached, because a later read could fail for lack of descriptors, and its empty result would look
// like a different boot.
std::string BootId() {
  static const std::string id(Trim(ReadFile("/proc/sys/kernel/random/boot_id", 100).value_or("")));
  return id;
}

}  // namespace carma::base
