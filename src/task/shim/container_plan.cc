#include "task/shim/container_plan.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "task/shim/checkpoint_folder.h"

namespace carma::task {
namespace {

// Process 1 of a container ignores signals that it does not handle, so a small init program must
// pass them on. Podman packages install one of these.
constexpr std::array kInits{"/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit",
                            "/usr/bin/catatonit", "/usr/bin/tini", "/usr/bin/dumb-init"};

bool IsRoots(const std::filesystem::path& path, bool may_be_sticky) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0 || st.st_uid != 0) return false;
  const bool others =
      (st.st_mode & S_IWOTH) != 0 || ((st.st_mode & S_IWGRP) != 0 && st.st_gid != 0);
  return !others || (may_be_sticky && (st.st_mode & S_ISVTX) != 0);
}
bool IsRootsFolder(std::filesystem::path folder) {
  if (!IsRoots(folder, false)) return false;
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    if (!IsRoots(folder, true)) return false;
  }
  return true;
}

Result<ContainerRun> ChooseTool(const ContainerImage& container, const std::string& search) {
  ContainerRun run;
  std::vector<std::string> names;
  for (const ContainerTool tool : ToolsFor(container)) {
    run.tool = tool;
    run.program = base::FindOnPath(search, ToolName(tool));
    if (!run.program.empty()) {
      // The folder may be a link that its owner could change before the program runs, so resolve
      // it.
      const std::filesystem::path path = run.program;
      std::error_code error;
      const auto folder = std::filesystem::canonical(path.parent_path(), error);
      if (!error) run.program = folder / path.filename();
      return run;
    }
    names.emplace_back(ToolName(tool));
  }
  return NotFound("container {}: cannot find {} on the task's PATH {}",
                  base::Printable(container.image, 200), base::Join(names, " or "),
                  base::Printable(search, 1000));
}

void AddMount(const ContainerMount& mount, ContainerRun& run) {
  const auto same = [&](const ContainerMount& known) {
    return known.destination == mount.destination;
  };
  if (std::ranges::none_of(run.mounts, same)) run.mounts.push_back(mount);
}

}  // namespace

Result<ContainerRun> PlanContainer(const ShimOrder& order, const UserInfo& user,
                                   Environment& environment) {
  const ContainerImage container = CARMA_TRY(ParseContainer(order.spec.container.value_or("")));
  ContainerRun run = CARMA_TRY(ChooseTool(container, Lookup(environment, "PATH")));
  const std::string books = BooksWord(order.books);
  run.order = order;
  run.user = user;
  run.image = container.image;
  run.name = ContainerName(books, order.id, order.attempt);
  run.group = ContainerGroup(books, order.id, order.attempt);
  for (const char* init : kInits) {
    if (run.init.empty() && base::IsProgram(init)) run.init = init;
  }
  for (const std::string& text : order.spec.container_mounts) {
    const ContainerMount mount = CARMA_TRY(ParseMount(text));
    AddMount(mount, run);
  }
  for (const std::string& folder :
       {Lookup(environment, "HOME"), order.spec.workdir, CheckpointFolder(order),
        Lookup(environment, "CUDA_MPS_PIPE_DIRECTORY")}) {
    if (folder != "/" && base::IsFolder(folder)) AddMount({folder, folder, false}, run);
  }
  // Podman fails if this variable names a folder that no longer exists, for example because the
  // user's session has ended.
  if (!base::IsFolder(Lookup(environment, "XDG_RUNTIME_DIR"))) environment.erase("XDG_RUNTIME_DIR");
  run.variables = ContainerVariables(environment);
  return run;
}

bool OnlyRootChanges(const std::string& program) {
  std::error_code error;
  const auto real = std::filesystem::canonical(program, error);
  if (error) return false;
  const auto folder =
      std::filesystem::canonical(std::filesystem::path(program).parent_path(), error);
  return !error && IsRoots(real, false) && IsRootsFolder(real.parent_path()) &&
         IsRootsFolder(folder);
}

Result<std::string> CopyScript(const ShimOrder& order, const std::string& text) {
  std::string path =
      fmt::format("/tmp/{}-XXXXXX", ContainerName(BooksWord(order.books), order.id, order.attempt));
  const base::UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file) return FailErrno(errno, "cannot write the script to " + path);
  Result<Unit> written = base::WriteAll(file.get(), text);
  if (written && ::fchmod(file.get(), 0500) != 0) written = FailErrno(errno, "fchmod");
  if (written) return path;
  ::unlink(path.c_str());
  return std::unexpected(written.error());
}

}  // namespace carma::task
