#include "daemon/loop/boot_mark.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <optional>

#include "base/file.h"
#include "base/log.h"
#include "base/process_id.h"
#include "base/text.h"

namespace carma::daemon {

// The boot ID and the start time of the system's or user's service manager. No service survives a
// restart of its manager, even if the kernel keeps running.
std::string MachineStart() {
  const std::string boot_id = base::BootId();
  if (boot_id.empty()) return {};
  const char* const of_user = std::getenv("MANAGERPID");
  const std::optional<std::int64_t> pid = base::ParseInt(of_user == nullptr ? "" : of_user);
  const std::optional<base::ProcessStat> manager =
      base::ReadProcessStat(static_cast<pid_t>(pid.value_or(1)));
  return manager ? fmt::format("{} {}", boot_id, manager->id.start_ticks) : boot_id;
}

bool MarkBoot(const std::string& state_dir, const std::string& boot_id) {
  if (boot_id.empty()) return false;
  const std::string path = state_dir + "/boot";
  const std::string text = base::ReadFile(path, 1'000).value_or("");
  const std::string_view marked = base::Trim(text);
  if (marked == boot_id) return false;
  const Result<Unit> written = base::WriteFileAtomic(path, boot_id + "\n", 0600);
  if (!written) base::LogWarn("boot_not_marked", {{"why", written.error().message}});
  return !marked.empty();
}

}  // namespace carma::daemon
