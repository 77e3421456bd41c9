// Creates, checks and marks the folder for a task's checkpoints.
#include "task/shim/checkpoint_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace carma::task {
namespace {

using base::Json;
using base::UniqueFd;

constexpr std::size_t kMaxOwnerFileBytes = 4096;
// UID that file servers report for files whose owner they do not know.
constexpr uid_t kNobody = 65534;

UniqueFd OpenFolder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Content of the folder's owner file; null if the file does not exist or cannot be read.
Json OwnerIn(const UniqueFd& folder) {
  const UniqueFd file(
      ::openat(folder.get(), kCheckpointOwnerFile, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return nullptr;
  Result<Json> json = base::ParseJson(base::ReadAll(file.get(), kMaxOwnerFileBytes).value_or(""));
  return json && json->is_object() ? *std::move(json) : Json(nullptr);
}

std::string Said(const Json& owner, const char* name) {
  const auto at = owner.find(name);
  if (at == owner.end()) return "?";
  return base::Printable(at->is_string() ? at->get<std::string>() : at->dump(), 100);
}

bool HasMore(const UniqueFd& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(
      ::fdopendir(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), &::closedir);
  if (!entries) return true;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != kCheckpointOwnerFile) return true;
  }
  return false;
}

}  // namespace

std::string CheckpointFolder(const ShimOrder& order) {
  const std::string where = order.spec.workdir == "/" ? "" : order.spec.workdir;
  const std::string books = order.books_named ? BooksWord(order.books) : "";
  return fmt::format("{}/carma-{}{}{}.ckpt", where, order.id, books.empty() ? "" : "-", books);
}

// The folder's owner must be checked, because any user with write access to the working directory
// could have created it, and the task would load that user's files.
Result<Unit> PrepareCheckpoints(const ShimOrder& order) {
  const std::string path = CheckpointFolder(order);
  if (order.saves && ::mkdir(path.c_str(), 0777) == 0) return Unit{};
  const UniqueFd folder = OpenFolder(path);
  struct stat info {};
  if (!folder || ::fstat(folder.get(), &info) != 0) return Unit{};
  if (info.st_uid != order.uid && info.st_uid != 0 && info.st_uid != kNobody) {
    return Conflict("its checkpoint folder {} belongs to user {}; move it out of the way",
                    base::Printable(path, 4096), info.st_uid);
  }
  const Json owner = OwnerIn(folder);
  if (owner.is_null()) return Unit{};
  if (Said(owner, "books") == order.books && Said(owner, "task") == fmt::format("{}", order.id))
    return Unit{};
  return Conflict(
      "its checkpoint folder {} belongs to task {} of {} under another carmad (on {}); move it "
      "out of the way",
      base::Printable(path, 4096), Said(owner, "task"), Said(owner, "user"), Said(owner, "host"));
}

void SettleCheckpoints(const ShimOrder& order, const std::string& user) {
  const std::string path = CheckpointFolder(order);
  const UniqueFd folder = OpenFolder(path);
  if (!folder) return;
  if (!HasMore(folder)) {
    ::unlinkat(folder.get(), kCheckpointOwnerFile, 0);
    ::rmdir(path.c_str());
    return;
  }
  const UniqueFd file(::openat(folder.get(), kCheckpointOwnerFile,
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) return;  // the file already exists, or the folder is not writable
  const std::string text = base::DumpJson({{"task", core::Number(order.id)},
                                           {"name", order.spec.name},
                                           {"user", user},
                                           {"host", base::ShortHostName()},
                                           {"books", order.books}}) +
                           "\n";
  if (!base::WriteAll(file.get(), text)) ::unlinkat(folder.get(), kCheckpointOwnerFile, 0);
}

}  // namespace carma::task
