// Commands that install the packages that `carma doctor` recommends, for Debian, Ubuntu (including
// DGX OS), Fedora, RHEL and similar distributions.
#include "cli/doctor/packages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/text.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxReleaseFile = 64 * 1024;

struct Packages {
  std::string_view distribution;  // a word of ID or ID_LIKE; the first matching row is used
  std::string_view install;
  std::array<std::string_view, 5> of;  // indexed by Missing
};
// Ubuntu's row comes before Debian's, because Ubuntu lists Debian in ID_LIKE. DCGM is in NVIDIA's
// own repository.
constexpr Packages kPackages[] = {
    {"ubuntu",
     "sudo apt install",
     {"ubuntu-drivers-common && sudo ubuntu-drivers install --gpgpu",
      "nvidia-compute-utils-$(cut -d. -f1 /sys/module/nvidia/version)", "datacenter-gpu-manager",
      "msmtp-mta", "curl"}},
    {"debian",
     "sudo apt install",
     {"nvidia-driver", "nvidia-cuda-mps", "datacenter-gpu-manager", "msmtp-mta", "curl"}},
    {"fedora",
     "sudo dnf install",
     {"akmod-nvidia xorg-x11-drv-nvidia-cuda", "xorg-x11-drv-nvidia-cuda", "datacenter-gpu-manager",
      "msmtp", "curl"}},
    {"rhel",
     "sudo dnf install",
     {"nvidia-driver-cuda kmod-nvidia-latest-dkms", "nvidia-driver-cuda", "datacenter-gpu-manager",
      "postfix", "curl"}}};

// Splits the value of a line such as KEY="a b" in os-release into words.
std::vector<std::string> WordsOf(std::string_view text, std::string_view key) {
  std::vector<std::string> words;
  for (const std::string_view line : base::Split(text, '\n')) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != '=') continue;
    std::string value(line.substr(key.size() + 1));
    std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
    for (const std::string_view word : base::SplitWords(value)) words.emplace_back(word);
  }
  return words;
}

}  // namespace

std::string InstallCommandFor(std::string_view os_release, Missing what) {
  // The distribution itself is tried before similar ones, because RHEL lists Fedora in ID_LIKE.
  for (const char* key : {"ID", "ID_LIKE"}) {
    for (const std::string& word : WordsOf(os_release, key)) {
      const auto* row = std::ranges::find(kPackages, word, &Packages::distribution);
      if (row != std::end(kPackages))
        return fmt::format(" ({} {})", row->install, row->of[static_cast<std::size_t>(what)]);
    }
  }
  return "";
}

std::string InstallCommand(const std::string& root, Missing what) {
  const auto text = base::ReadFile(root + "/etc/os-release", kMaxReleaseFile);
  return text ? InstallCommandFor(*text, what) : "";
}

}  // namespace carma::cli
