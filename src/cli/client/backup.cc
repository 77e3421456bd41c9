// `carma backup`: copies the database.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "config/settings.h"
#include "store/backup.h"

namespace carma::cli {
namespace {

// The running daemon's state folder or, if no daemon answers, the configured one.
Result<std::string> StateFolder(Context& context, const BackupFlags& flags) {
  if (!flags.state_dir.empty()) return flags.state_dir;
  const Called<api::StatusView> status = GetStatus(context.client());
  if (status && !status->value.state_dir.empty()) return status->value.state_dir;
  return CARMA_TRY(config::Load(config::StandardSources(std::nullopt, ::geteuid() == 0)))
      .settings.state_dir;
}

// A backup in a folder is named after the current time: "carma-20260301-064500.db".
std::string TargetFile(const std::string& given) {
  struct stat info {};
  if (::stat(given.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return given;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char name[32];
  std::strftime(name, sizeof name, "carma-%Y%m%d-%H%M%S.db", &local);
  return given + (given.ends_with('/') ? "" : "/") + name;
}

}  // namespace

Result<Unit> RunBackup(Context& context, const BackupFlags& flags) {
  if (flags.target == "-")
    return Invalid("a backup cannot be written to standard output; name a file or a folder");
  const std::string folder = CARMA_TRY(StateFolder(context, flags));
  const std::string file = TargetFile(flags.target);
  const Result<std::int64_t> bytes = store::BackUp(folder, file, flags.force);
  if (!bytes && bytes.error().code == ErrorCode::kConflict && !flags.force)
    return Conflict(bytes.error().message + "; --force replaces a file");
  if (!bytes) return std::unexpected(bytes.error());
  Print(context,
        context.json
            ? base::DumpJson({{"file", file}, {"state_dir", folder}, {"bytes", *bytes}}) + "\n"
            : fmt::format("Backed up {} to {} ({} bytes)\n", base::Printable(folder, 400),
                          base::Printable(file, 400), *bytes));
  return Unit{};
}

}  // namespace carma::cli
