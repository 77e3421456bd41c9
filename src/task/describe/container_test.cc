#include "task/describe/container.h"

#include <gtest/gtest.h>

#include <vector>

namespace carma::task {
namespace {

TEST(Container, ReadsToolAndImage) {
  using enum ContainerTool;
  const std::vector<std::pair<std::string, ContainerImage>> cases{
      {"pytorch/pytorch:latest", {std::nullopt, "pytorch/pytorch:latest"}},
      {"podman:debian:12", {kPodman, "debian:12"}},
      {"docker:nvcr.io/nvidia/pytorch:25.01-py3", {kDocker, "nvcr.io/nvidia/pytorch:25.01-py3"}},
      {"apptainer:/images/a.sif", {kApptainer, "/images/a.sif"}},
      {"docker://debian:12", {std::nullopt, "docker://debian:12"}},
      {"apptainer:docker://debian", {kApptainer, "docker://debian"}},
      {"podman", {std::nullopt, "podman"}},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = ParseContainer(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, expected) << text;
    EXPECT_EQ(ContainerText(*parsed), text);
  }
}

TEST(Container, RefusesInvalidImages) {
  for (const char* text : {"", "-v/:/host", "podman:--privileged", "docker:", "a b", "a\nb"})
    EXPECT_FALSE(ParseContainer(text)) << text;
  EXPECT_TRUE(ParseContainer("--privileged").error().message.starts_with("expected an image"));
}

TEST(Container, ChoosesAmongToolsByTheKindOfImage) {
  using enum ContainerTool;
  const auto tools = [](std::string_view text) {
    const auto found = ToolsFor(*ParseContainer(text));
    return std::vector<ContainerTool>(found.begin(), found.end());
  };
  EXPECT_EQ(tools("debian:12"), (std::vector{kPodman, kDocker, kApptainer}));
  EXPECT_EQ(tools("train.sif"), std::vector{kApptainer});
  EXPECT_EQ(tools("/images/folder"), std::vector{kApptainer});
  EXPECT_EQ(tools("docker://debian"), std::vector{kApptainer});
  EXPECT_EQ(tools("docker:debian"), std::vector{kDocker});
}

TEST(Container, ReadsMounts) {
  EXPECT_EQ(*ParseMount("/data"), (ContainerMount{"/data", "/data", false}));
  EXPECT_EQ(*ParseMount("/data:ro"), (ContainerMount{"/data", "/data", true}));
  EXPECT_EQ(*ParseMount("/a,b:/c:ro"), (ContainerMount{"/a,b", "/c", true}));
  for (const char* text : {"", "data", "/a:b", "/a:/b:rw", "/a\"b", "/a:"})
    EXPECT_FALSE(ParseMount(text)) << text;
}

}  // namespace
}  // namespace carma::task
