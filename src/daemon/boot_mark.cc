#include "daemon/boot_mark.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

namespace carma::daemon {

bool MarkBoot(const std::string& state_dir, const std::string& boot_id) {
  if (boot_id.empty()) return false;
  const std::string path = state_dir + "/boot";
  const std::string text = base::ReadFile(path, 1'000).value_or("");
  const std::string_view marked = base::Trim(text);
  if (marked == boot_id) return false;
  const base::Result<base::Unit> written = base::WriteFileAtomic(path, boot_id + "\n", 0600);
  if (!written) base::LogWarn("boot_not_marked", {{"why", written.error().message}});
  return !marked.empty();
}

}  // namespace carma::daemon
