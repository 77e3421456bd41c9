// The container in which a task runs: its image, the tool that runs it, and additional mounted
// folders.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::task {

enum class ContainerTool { kPodman, kDocker, kApptainer };
std::string_view ToolName(ContainerTool tool);  // name of its program: "podman"

struct ContainerImage {
  std::optional<ContainerTool> tool;  // empty: the first installed tool of ToolsFor()
  std::string image;                  // in the tool's syntax
  friend bool operator==(const ContainerImage&, const ContainerImage&) = default;
};
// Parses "IMAGE" or "TOOL:IMAGE" ("podman:debian:12"). An image that begins with "docker://" is for
// Apptainer, not for Docker. Returns kInvalid for any other text.
Result<ContainerImage> ParseContainer(std::string_view text);
std::string ContainerText(const ContainerImage& container);

// Returns true if the image is a file or folder, that is, if it begins with '/', "./", "../" or
// "~/", or ends with ".sif".
bool IsImageFile(std::string_view image);

// The tools that can run the image, in order of preference. Image files and "docker://…" need
// Apptainer. For an image in a registry: Podman, which needs no privileges, then Docker, then
// Apptainer.
std::vector<ContainerTool> ToolsFor(const ContainerImage& container);

struct ContainerMount {
  std::string source;  // absolute path on the server
  std::string destination;
  bool read_only = false;
  friend bool operator==(const ContainerMount&, const ContainerMount&) = default;
};
// Parses "SOURCE[:DESTINATION][:ro]", or returns kInvalid. The default destination is the source.
Result<ContainerMount> ParseMount(std::string_view text);

}  // namespace carma::task
