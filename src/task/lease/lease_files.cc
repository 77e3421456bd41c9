#include "task/lease/lease_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "base/fields_json.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

namespace carma::task {
namespace {

using base::Json;
using base::UniqueFd;

constexpr char kLeaseFile[] = "lease";
constexpr std::size_t kMaxFile = 4 << 20;
// The first line of the file is the grant. Every other line starts with one of these words.
constexpr std::string_view kKeeper = "keeper ", kMember = "process ", kEnd = "end ";

// Appends whole lines to the file, either all of them or none.
Result<Unit> Append(const std::string& dir, int flags, std::string_view lines) {
  const std::string path = dir + "/" + kLeaseFile;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0600));
  if (!fd) return FailErrno(errno, path);
  const off_t before = ::lseek(fd.get(), 0, SEEK_END);
  if (Result<Unit> written = base::WriteAll(fd.get(), lines); !written) {
    if (before >= 0) (void)!::ftruncate(fd.get(), before);
    return base::Wrap(written.error(), path);
  }
  return Unit{};
}

// Returns the rest of each line that begins with `kind`.
std::vector<std::string> LinesOf(const std::string& dir, std::string_view kind) {
  std::vector<std::string> lines;
  const std::string text = base::ReadFile(dir + "/" + kLeaseFile, kMaxFile).value_or("");
  for (const std::string_view line : base::Split(text, '\n')) {
    if (line.starts_with(kind)) lines.emplace_back(line.substr(kind.size()));
  }
  return lines;
}

std::optional<LeaseEnd> EndIn(const Json& json) {
  const Result<LeaseEnd> end = base::FieldsFromJson<LeaseEnd>(json, "", base::Unknown::kPassedOver);
  return end ? std::optional(*end) : std::nullopt;
}

std::string PathOfLeftEnd(const std::string& ends_dir, core::TaskId id) {
  return fmt::format("{}/{}", ends_dir, id);
}

}  // namespace

Result<Unit> KeepGrant(const Lease& lease) {
  return Append(lease.dir, O_CREAT | O_TRUNC,
                base::DumpJson({{"process", TextOf(lease.members.front().process)},
                                {"key", lease.key ? TextOf(*lease.key) : ""},
                                {"uid", lease.uid},
                                {"environment", lease.environment},
                                {"grace_ms", lease.grace.count()},
                                {"checkpoint_signal", lease.checkpoint_signal}}) +
                    "\n");
}

Result<Unit> KeepMembers(const Lease& lease, const std::vector<LeaseMember>& members) {
  std::string text;
  for (const LeaseMember& each : members) {
    fmt::format_to(std::back_inserter(text), "{}{}\n", each.keeper ? kKeeper : kMember,
                   TextOf(each.process));
  }
  return Append(lease.dir, 0, text);
}

Result<Unit> KeepEnd(const Lease& lease, const LeaseEnd& end) {
  const Json json = base::FieldsToJson(end, base::Absent::kLeftOut);
  return Append(lease.dir, 0, fmt::format("{}{}\n", kEnd, base::DumpJson(json)));
}

std::optional<Lease> ReadGrant(const std::string& dir) {
  const std::vector<std::string> lines = LinesOf(dir, "{");
  const Result<Json> json = base::ParseJson(lines.empty() ? "" : "{" + lines.front());
  if (!json) return std::nullopt;
  base::JsonReader in(*json, "");
  Lease lease;
  std::string process;
  std::int64_t grace_ms = 0;
  in.Get("process", process, 256);
  std::string key;
  in.Get("key", key, 256);
  std::int64_t uid = 0;
  in.Get("uid", uid, 0, UINT32_MAX);
  in.Get("grace_ms", grace_ms, 0, INT64_MAX);
  in.Get("checkpoint_signal", lease.checkpoint_signal, 16);
  const Json* environment = in.Raw("environment");
  const std::optional<LeaseProcess> known = ParseLeaseProcess(process);
  if (in.error() || !known || environment == nullptr || !environment->is_object())
    return std::nullopt;
  for (const auto& [name, value] : environment->items()) {
    if (value.is_string()) lease.environment[name] = value.get<std::string>();
  }
  lease.key = ParseLeaseKey(key);
  lease.members.push_back({*known, {}, lease.key.has_value()});
  lease.uid = static_cast<std::uint32_t>(uid);
  lease.grace = base::Duration(grace_ms);
  lease.dir = dir;
  return lease;
}

std::vector<LeaseMember> ReadMembers(const std::string& dir) {
  std::vector<LeaseMember> members;
  for (const std::string_view kind : {kKeeper, kMember}) {
    for (const std::string& line : LinesOf(dir, kind)) {
      if (const std::optional<LeaseProcess> process = ParseLeaseProcess(line))
        members.push_back({*process, {}, kind == kKeeper});
    }
  }
  return members;
}

std::optional<LeaseEnd> ReadEnd(const std::string& dir) {
  const std::vector<std::string> lines = LinesOf(dir, kEnd);
  const Result<Json> json = base::ParseJson(lines.empty() ? "" : lines.front());
  return json ? EndIn(*json) : std::nullopt;
}

std::optional<LeaseEnd> ReadLeftEnd(const std::string& ends_dir, core::TaskId id,
                                    const Lease& lease) {
  if (ends_dir.empty()) return std::nullopt;
  const std::string path = PathOfLeftEnd(ends_dir, id);
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      (info.st_uid != 0 && info.st_uid != ::geteuid()))
    return std::nullopt;
  const Result<Json> json = base::ParseJson(base::ReadFile(path, kMaxFile).value_or(""));
  if (!json) return std::nullopt;
  base::JsonReader in(*json, "");
  std::int64_t pid = 0;
  in.Get("pid", pid, 1, INT32_MAX);
  bool known = false;
  for (const LeaseMember& each : lease.members)
    known = known || (each.keeper && each.process.process.pid == pid);
  for (const LeaseProcess& each : lease.gone_keepers) known = known || each.process.pid == pid;
  return known ? EndIn(*json) : std::nullopt;
}

void DropLeftEnd(const std::string& ends_dir, core::TaskId id) {
  if (!ends_dir.empty()) ::unlink(PathOfLeftEnd(ends_dir, id).c_str());
}

}  // namespace carma::task
