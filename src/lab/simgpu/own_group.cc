#include "lab/simgpu/own_group.h"

#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace carma::simgpu {

// The kernel writes both files by itself: a line "0::/path", and one with the v2 tree's mount.
std::string OwnGroup() {
  const std::string self = base::ReadFile("/proc/self/cgroup", 65'536).value_or("");
  const std::string mounts = base::ReadFile("/proc/self/mountinfo", 1 << 20).value_or("");
  std::string path;
  for (const std::string_view line : base::Split(self, '\n')) {
    if (line.starts_with("0::/")) path = line.substr(3);
  }
  for (const std::string_view line : base::Split(mounts, '\n')) {
    const std::vector<std::string_view> words = base::SplitWords(line);
    if (words.size() < 5 || line.find(" - cgroup2 ") == std::string_view::npos) continue;
    if (words[3] != "/" && path.starts_with(words[3])) path.erase(0, words[3].size());
    return path.empty() || path == "/" ? "" : std::string(words[4]) + path;
  }
  return "";
}

}  // namespace carma::simgpu
