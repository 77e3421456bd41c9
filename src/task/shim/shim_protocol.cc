#include "task/shim/shim_protocol.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "task/describe/spec.h"

namespace carma::task {
namespace {

using base::ErrorCode;
using base::Fail;
using base::FailErrno;
using base::Json;
using base::JsonReader;
using base::Result;
using base::UniqueFd;
using base::Unit;

constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::int64_t kMaxId = INT64_MAX;
constexpr std::size_t kMaxVariables = 100'000;
constexpr std::int64_t kMaxGraceMs = 86'400'000;  // one day

// The text of a path, argument or variable must reach execve() as it is: no NUL byte within.
bool HasNul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

void ReadVariables(JsonReader& in, const char* key, std::map<std::string, std::string>& target) {
  const Json* value = in.Raw(key);
  if (value == nullptr) return;
  if (!value->is_object() || value->size() > kMaxVariables) {
    return in.Complain(key, "an object of variables");
  }
  for (const auto& [name, text] : value->items()) {
    const bool good = text.is_string() && !name.empty() && name.find('=') == std::string::npos &&
                      !HasNul(name) && !HasNul(text.get_ref<const std::string&>());
    if (!good) return in.Complain(key, "names without '=' and texts without NUL");
    target[name] = text.get<std::string>();
  }
}

void ReadArguments(JsonReader& in, const char* key, std::vector<std::string>& target) {
  in.Get(key, target, kMaxArgs, kMaxArgBytes);
  for (const std::string& text : target) {
    if (HasNul(text)) return in.Complain(key, "texts without NUL");
  }
}

void ReadPath(JsonReader& in, const char* key, std::string& target) {
  in.Get(key, target, kMaxPathBytes);
  if (target.empty() || target.front() != '/' || HasNul(target)) {
    in.Complain(key, "an absolute path");
  }
}

void ReadProcess(JsonReader& in, base::ProcessId& process) {
  std::int64_t pid = 0, start = -1;
  in.Get("pid", pid, 1, INT32_MAX);
  in.Get("start_ticks", start, 0, kMaxId);
  if (pid == 0) in.Complain("pid", "a process number");
  if (start < 0) in.Complain("start_ticks", "clock ticks since boot");
  process = {static_cast<pid_t>(pid), static_cast<std::uint64_t>(start)};
}

Json ProcessFields(const base::ProcessId& process) {
  return {{"pid", process.pid}, {"start_ticks", process.start_ticks}};
}

void ReadIdentity(JsonReader& in, ShimOrder& order) {
  std::int64_t id = 0, uid = -1, gid = -1;
  in.Get("id", id, 1, kMaxId);
  in.Get("attempt", order.attempt, 1, INT32_MAX);
  in.Get("uid", uid, 0, UINT32_MAX - 1);
  in.Get("gid", gid, 0, UINT32_MAX - 1);
  in.Get("name", order.name, kMaxNameBytes);
  // An order without its user must not become root's.
  if (id == 0) in.Complain("id", "a task number");
  if (uid < 0 || gid < 0) in.Complain("uid", "user and group numbers");
  order.id = core::TaskId(id);
  order.uid = static_cast<std::uint32_t>(uid);
  order.gid = static_cast<std::uint32_t>(gid);
}

void ReadProgram(JsonReader& in, ShimOrder& order) {
  ReadArguments(in, "command", order.command);
  ReadArguments(in, "script_args", order.script_args);
  ReadPath(in, "workdir", order.workdir);
  ReadVariables(in, "environment", order.environment);
  ReadVariables(in, "extra_environment", order.extra_environment);
  in.Get("conda_env", order.conda_env, kMaxPathBytes);
  in.Get("gpu_uuids", order.gpu_uuids, kMaxGpus, 256);
  in.Get("array_index", order.array_index, 0, kMaxId);
}

void ReadSupervision(JsonReader& in, ShimOrder& order) {
  ReadPath(in, "stdout", order.stdout_path);
  ReadPath(in, "stderr", order.stderr_path);
  in.Get("max_output_bytes", order.max_output_bytes, 0, kMaxId);
  in.Get("output_rotations", order.output_rotations, 0, 1000);
  std::int64_t grace_ms = order.kill_grace.count();
  in.Get("kill_grace_ms", grace_ms, 0, kMaxGraceMs);
  order.kill_grace = base::Duration(grace_ms);
  in.Get("cgroup_base", order.cgroup_base, kMaxPathBytes);
  in.Get("cgroup_root", order.cgroup_root, kMaxPathBytes);
}

bool AllUtf8(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (!base::IsUtf8(text)) return false;
  }
  return true;
}

bool AllUtf8(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, text] : variables) {
    if (!base::IsUtf8(name) || !base::IsUtf8(text)) return false;
  }
  return true;
}

Result<Unit> WriteDraft(const std::string& path, const std::string& text) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return FailErrno(errno, path);
  if (Result<Unit> written = base::WriteAll(fd.get(), text); !written) {
    return base::Wrap(written.error(), path);
  }
  return Unit{};
}

Result<Unit> SyncPath(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!fd || ::fsync(fd.get()) != 0) return FailErrno(errno, path);
  return Unit{};
}

}  // namespace

Result<std::string> ToText(const ShimOrder& order) {
  const bool utf8 = AllUtf8(order.command) && AllUtf8(order.script_args) &&
                    AllUtf8(order.environment) && AllUtf8(order.extra_environment) &&
                    AllUtf8({order.name, order.workdir, order.stdout_path, order.stderr_path,
                             order.conda_env.value_or("")});
  if (!utf8) return Fail(ErrorCode::kInvalid, "command, paths and environment: expected UTF-8");
  Json json = {{"id", core::Number(order.id)},
               {"attempt", order.attempt},
               {"name", order.name},
               {"uid", order.uid},
               {"gid", order.gid},
               {"command", order.command},
               {"script_args", order.script_args},
               {"workdir", order.workdir},
               {"environment", order.environment},
               {"extra_environment", order.extra_environment},
               {"gpu_uuids", order.gpu_uuids},
               {"stdout", order.stdout_path},
               {"stderr", order.stderr_path},
               {"max_output_bytes", order.max_output_bytes},
               {"output_rotations", order.output_rotations},
               {"kill_grace_ms", order.kill_grace.count()},
               {"cgroup_base", order.cgroup_base},
               {"cgroup_root", order.cgroup_root}};
  if (order.conda_env) json["conda_env"] = *order.conda_env;
  if (order.array_index) json["array_index"] = *order.array_index;
  return base::DumpJson(json) + "\n";
}

std::string ToText(const ShimOwner& owner) {
  Json json = ProcessFields(owner.process);
  json["boot_id"] = owner.boot_id;
  json["abandoned"] = owner.abandoned;
  return base::DumpJson(json) + "\n";
}

std::string ToText(const ShimStarted& started) {
  Json json = ProcessFields(started.process);
  json["cgroup"] = started.cgroup;
  return base::DumpJson(json) + "\n";
}

std::string ToText(const ShimReport& report) {
  Json json = {{"launched", report.launched}};
  if (!report.launched) {
    json["text"] = report.text;
    json["retryable"] = report.retryable;
    return base::DumpJson(json) + "\n";
  }
  json.update({{"exit_code", report.exit_code},
               {"signal", report.signal},
               {"lost", report.lost},
               {"host_oom", report.host_oom},
               {"stderr_tail_base64", EncodeBase64(report.stderr_tail)},
               {"started_ms", report.started_ms},
               {"ended_ms", report.ended_ms},
               {"started_boot_ns", report.started_boot_ns},
               {"ended_boot_ns", report.ended_boot_ns},
               {"max_rss_kib", report.max_rss_kib},
               {"dropped_output_bytes", report.dropped_output_bytes}});
  return base::DumpJson(json) + "\n";
}

Result<ShimOrder> ParseShimOrder(std::string_view text) {
  if (text.size() > kMaxOrderBytes) return Fail(ErrorCode::kInvalid, "the order is too large");
  const Result<Json> json = base::ParseJson(text);
  if (!json) return std::unexpected(json.error());
  ShimOrder order;
  JsonReader in(*json, "");
  ReadIdentity(in, order);
  ReadProgram(in, order);
  ReadSupervision(in, order);
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  return order;
}

Result<ShimOwner> ParseShimOwner(std::string_view text) {
  const Result<Json> json = base::ParseJson(text.substr(0, kMaxOwnerBytes));
  if (!json) return std::unexpected(json.error());
  ShimOwner owner;
  JsonReader in(*json, "");
  ReadProcess(in, owner.process);
  in.Get("boot_id", owner.boot_id, 100);
  in.Get("abandoned", owner.abandoned);
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  return owner;
}

Result<ShimStarted> ParseShimStarted(std::string_view text) {
  const Result<Json> json = base::ParseJson(text.substr(0, kStartedReserveBytes));
  if (!json) return std::unexpected(json.error());
  ShimStarted started;
  JsonReader in(*json, "");
  ReadProcess(in, started.process);
  in.Get("cgroup", started.cgroup, kMaxPathBytes);
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  return started;
}

Result<ShimReport> ParseShimReport(std::string_view text) {
  const Result<Json> json = base::ParseJson(text.substr(0, kReportReserveBytes));
  if (!json) return std::unexpected(json.error());
  ShimReport report;
  std::string tail;
  JsonReader in(*json, "");
  if (!in.Get("launched", report.launched)) in.Complain("launched", "true or false");
  in.Get("text", report.text, 16'384);
  in.Get("retryable", report.retryable);
  in.Get("exit_code", report.exit_code, 0, 255);
  in.Get("signal", report.signal, 0, 64);
  in.Get("lost", report.lost);
  in.Get("host_oom", report.host_oom);
  in.Get("stderr_tail_base64", tail, (kStderrTailBytes + 2) / 3 * 4);
  in.Get("started_ms", report.started_ms, 0, kMaxId);
  in.Get("ended_ms", report.ended_ms, 0, kMaxId);
  in.Get("started_boot_ns", report.started_boot_ns, 0, kMaxId);
  in.Get("ended_boot_ns", report.ended_boot_ns, 0, kMaxId);
  in.Get("max_rss_kib", report.max_rss_kib, 0, kMaxId);
  in.Get("dropped_output_bytes", report.dropped_output_bytes, 0, kMaxId);
  in.NoOthers();
  const std::optional<std::string> bytes = DecodeBase64(tail);
  if (!bytes) in.Complain("stderr_tail_base64", "base64");
  if (in.error()) return std::unexpected(*in.error());
  report.stderr_tail = *bytes;
  return report;
}

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? kBase64Digits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::array<std::int8_t, 256> value{};
  value.fill(-1);
  for (std::size_t i = 0; i < kBase64Digits.size(); ++i) {
    value[static_cast<unsigned char>(kBase64Digits[i])] = static_cast<std::int8_t>(i);
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::string_view group = text.substr(i, 4);
    const bool last = i + 4 == text.size();
    const std::size_t padding = !last                   ? 0
                                : group.ends_with("==") ? 2
                                : group.ends_with("=")  ? 1
                                                        : 0;
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const int digit = k < 4 - padding ? value[static_cast<unsigned char>(group[k])] : 0;
      if (digit < 0) return std::nullopt;
      bits = bits << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t k = 0; k < 3 - padding; ++k) {
      bytes += static_cast<char>(bits >> (16 - 8 * k) & 255);
    }
  }
  return bytes;
}

Result<bool> ClaimAttempt(const std::string& attempt_dir, bool abandon) {
  const std::string owner = attempt_dir + "/" + kOwnerFile;
  const std::string draft = owner + "." + std::to_string(::getpid());
  const ShimOwner self{base::SelfProcess(), base::BootId(), abandon};
  const Result<Unit> written = WriteDraft(draft, ToText(self));
  // link() refuses to replace: of all who try, one wins, and its file is complete from the start.
  const bool linked = written && ::link(draft.c_str(), owner.c_str()) == 0;
  const int link_error = errno;
  ::unlink(draft.c_str());
  if (!written) return std::unexpected(written.error());
  if (linked) return true;
  if (link_error == EEXIST) return false;
  return FailErrno(link_error, "claim " + owner);
}

Result<Unit> SyncClaim(const std::string& attempt_dir) {
  if (Result<Unit> file = SyncPath(attempt_dir + "/" + kOwnerFile, 0); !file) return file;
  return SyncPath(attempt_dir, O_DIRECTORY);
}

bool OwnerLives(const ShimOwner& owner) {
  return !owner.abandoned && owner.boot_id == base::BootId() && base::Alive(owner.process);
}

Result<Unit> ReservedFile::Reserve(const std::string& dir, const std::string& name,
                                   std::size_t bytes) {
  dir_ = dir;
  name_ = name;
  const std::string path = dir + "/" + name + ".reserve";
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return FailErrno(errno, path);
  const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) return FailErrno(error, "reserve " + path);
  return Unit{};
}

Result<Unit> ReservedFile::Commit(std::string_view text, bool durable) {
  const std::string path = dir_ + "/" + name_;
  const std::string reserve = path + ".reserve";
  // Without O_TRUNC: the blocks are the point.
  UniqueFd fd(::open(reserve.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return FailErrno(errno, reserve);
  Result<Unit> written = base::WriteAll(fd.get(), text);
  if (!written) return base::Wrap(written.error(), reserve);
  if (::ftruncate(fd.get(), static_cast<off_t>(text.size())) != 0) return FailErrno(errno, reserve);
  if (durable && ::fsync(fd.get()) != 0) return FailErrno(errno, reserve);
  if (::rename(reserve.c_str(), path.c_str()) != 0) return FailErrno(errno, path);
  // The file has its name now; a folder that cannot be synced is no reason to write it again.
  if (durable) (void)SyncPath(dir_, O_DIRECTORY);
  return Unit{};
}

}  // namespace carma::task
