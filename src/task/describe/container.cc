#include "task/describe/container.h"

#include <array>

#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxBytes = 4096;

// Indexed by ContainerTool.
constexpr std::array<std::string_view, 3> kTools{"podman", "docker", "apptainer"};

bool IsOnePlainLine(std::string_view text) {
  return !text.empty() && text.size() <= kMaxBytes && base::IsOneLine(text);
}

}  // namespace

std::string_view ToolName(ContainerTool tool) {
  return kTools[static_cast<std::size_t>(tool)];
}

Result<ContainerImage> ParseContainer(std::string_view text) {
  ContainerImage container{std::nullopt, std::string(text)};
  for (std::size_t i = 0; i < kTools.size(); ++i) {
    const bool names_it = text.starts_with(std::string(kTools[i]) + ":");
    const std::string_view rest = names_it ? text.substr(kTools[i].size() + 1) : "";
    if (names_it && !rest.starts_with("//"))
      container = {static_cast<ContainerTool>(i), std::string(rest)};
  }
  // The tool would mistake an image name that begins with '-' for an option.
  const bool good = IsOnePlainLine(container.image) && !container.image.starts_with('-') &&
                    !container.image.contains(' ');
  if (!good) {
    return Invalid(
        "expected an image such as pytorch/pytorch:latest, podman:debian:12 or /images/train.sif, "
        "not '" +
        base::Printable(text, 60) + "'");
  }
  return container;
}

std::string ContainerText(const ContainerImage& container) {
  return (container.tool ? std::string(ToolName(*container.tool)) + ":" : "") + container.image;
}

bool IsImageFile(std::string_view image) {
  if (image.contains("://")) return false;
  for (const std::string_view start : {"/", "./", "../", "~/"}) {
    if (image.starts_with(start)) return true;
  }
  return image.ends_with(".sif");
}

std::vector<ContainerTool> ToolsFor(const ContainerImage& container) {
  if (container.tool) return {*container.tool};
  if (IsImageFile(container.image) || container.image.contains("://"))
    return {ContainerTool::kApptainer};
  return {ContainerTool::kPodman, ContainerTool::kDocker, ContainerTool::kApptainer};
}

Result<ContainerMount> ParseMount(std::string_view text) {
  ContainerMount mount;
  std::string_view rest = text;
  if (rest.ends_with(":ro")) {
    mount.read_only = true;
    rest.remove_suffix(3);
  }
  const std::size_t colon = rest.find(':');
  mount.source = rest.substr(0, colon);
  mount.destination = colon == std::string_view::npos ? mount.source : rest.substr(colon + 1);
  const auto good = [](const std::string& path) {
    return IsOnePlainLine(path) && path.starts_with('/') && !path.contains(':') &&
           !path.contains('"');
  };
  if (!good(mount.source) || !good(mount.destination)) {
    return Invalid(
        "expected absolute paths as SOURCE[:DESTINATION][:ro], such as /data or "
        "/data/imagenet:/data:ro, not '" +
        base::Printable(text, 60) + "'");
  }
  return mount;
}

}  // namespace carma::task
