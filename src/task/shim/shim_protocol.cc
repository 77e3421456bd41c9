#include "task/shim/shim_protocol.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include "base/base64.h"
#include "base/field_check.h"
#include "base/fields_json.h"
#include "base/file.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "task/process/process_tree.h"

namespace carma::task {
namespace {

using base::Json;
using base::JsonReader;
using base::UniqueFd;

constexpr char kTailField[] = "stderr_tail_base64";

// Rejects variables that execve() cannot pass on unchanged.
Result<Unit> CheckVariables(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, text] : variables) {
    if (name.empty() || name.contains('=') || !HasNoNul(name) || !HasNoNul(text))
      return Invalid("environment: expected names without '=' and values without NUL bytes");
  }
  return Unit{};
}

template <class T>
std::string Line(const T& value) {
  return base::DumpJson(base::FieldsToJson(value, base::Absent::kLeftOut)) + "\n";
}

template <class T>
Result<T> Parse(std::string_view text) {
  const Json json = CARMA_TRY(base::ParseJson(text));
  return base::FieldsFromJson<T>(json, "", base::Unknown::kRefused);
}

Result<Unit> WriteDraft(const std::string& path, const std::string& text) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return FailErrno(errno, path);
  return base::Wrap(base::WriteAll(fd.get(), text), path);
}

Result<Unit> SyncPath(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!fd || ::fsync(fd.get()) != 0) return FailErrno(errno, path);
  return Unit{};
}

}  // namespace

Result<std::string> ToText(const ShimOrder& order) {
  const Json json = base::FieldsToJson(order, base::Absent::kLeftOut);
  try {
    return json.dump(-1, ' ', false, Json::error_handler_t::strict) + "\n";
  } catch (const Json::type_error&) {
    return Invalid("command, paths and environment: expected UTF-8");
  }
}

std::string ToText(const ShimOwner& owner) {
  return Line(owner);
}

std::string ToText(const ShimStarted& started) {
  return Line(started);
}

std::string ToText(const ShimReport& report) {
  Json json = base::FieldsToJson(report, base::Absent::kLeftOut);
  if (report.launched) json[kTailField] = base::EncodeBase64(report.stderr_tail);
  return base::DumpJson(json) + "\n";
}

Result<ShimOrder> ParseShimOrder(std::string_view text) {
  if (text.size() > kMaxOrderBytes) return Invalid("the order is too large");
  ShimOrder order = CARMA_TRY(Parse<ShimOrder>(text));
  for (const Result<Unit>& good : {base::CheckFields(order), CheckVariables(order.spec.environment),
                                   CheckVariables(order.extra_environment)}) {
    if (!good) return Invalid("/" + good.error().message);
  }
  return order;
}

Result<ShimOwner> ParseShimOwner(std::string_view text) {
  return Parse<ShimOwner>(text.substr(0, kMaxOwnerBytes));
}

Result<ShimStarted> ParseShimStarted(std::string_view text) {
  return Parse<ShimStarted>(text.substr(0, kStartedReserveBytes));
}

Result<ShimReport> ParseShimReport(std::string_view text) {
  const Json json = CARMA_TRY(base::ParseJson(text.substr(0, kReportReserveBytes)));
  ShimReport report;
  JsonReader in(json, "");
  base::FieldReader reader(in, base::Unknown::kRefused);
  ShimReport::VisitFields(reader, report);
  std::string tail;
  in.Get(kTailField, tail, (kStderrTailBytes + 2) / 3 * 4);
  in.NoOthers();
  const std::optional<std::string> bytes = base::DecodeBase64(tail);
  if (!bytes) in.Complain(kTailField, "base64");
  if (in.error()) return std::unexpected(*in.error());
  report.stderr_tail = *bytes;
  return report;
}

Result<bool> ClaimAttempt(const std::string& attempt_dir, bool abandon) {
  const std::string owner = attempt_dir + "/" + kOwnerFile;
  const std::string draft = fmt::format("{}.{}", owner, ::getpid());
  const ShimOwner self{base::SelfProcess(), base::BootId(), abandon};
  const Result<Unit> written = WriteDraft(draft, ToText(self));
  // link() never replaces a file. If there are several writers, one of them wins, and its file is
  // complete from the start.
  const bool linked = written && ::link(draft.c_str(), owner.c_str()) == 0;
  const int link_error = errno;
  ::unlink(draft.c_str());
  if (!written) return std::unexpected(written.error());
  if (linked) return true;
  if (link_error == EEXIST) return false;
  return FailErrno(link_error, "claim " + owner);
}

Result<Unit> SyncClaim(const std::string& attempt_dir) {
  CARMA_TRY(SyncPath(attempt_dir + "/" + kOwnerFile, 0));
  return SyncPath(attempt_dir, O_DIRECTORY);
}

bool OwnerLives(const ShimOwner& owner) {
  return !owner.abandoned && owner.boot_id == base::BootId() && MayLive(owner.process);
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
  // Opened without O_TRUNC, because the file must keep its blocks on disk.
  UniqueFd fd(::open(reserve.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return FailErrno(errno, reserve);
  CARMA_TRY(base::Wrap(base::WriteAll(fd.get(), text), reserve));
  if (::ftruncate(fd.get(), static_cast<off_t>(text.size())) != 0) return FailErrno(errno, reserve);
  if (durable && ::fsync(fd.get()) != 0) return FailErrno(errno, reserve);
  if (::rename(reserve.c_str(), path.c_str()) != 0) return FailErrno(errno, path);
  // The file is complete and has its final name, so there is no need to write it again if syncing
  // the folder fails.
  if (durable) (void)SyncPath(dir_, O_DIRECTORY);
  return Unit{};
}

}  // namespace carma::task
