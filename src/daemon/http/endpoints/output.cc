#include "daemon/http/endpoints/handlers.h"

#include "base/json.h"
#include "base/try.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/http/endpoints/tasks.h"
#include "daemon/loop/read_as_user.h"

namespace carma::daemon {
namespace {

constexpr std::int64_t kUsualBytes = 16 << 10;
constexpr std::int64_t kMostOutputBytes = 1 << 20;

Answer ReadEnd(std::uint32_t uid, std::uint32_t gid, const std::string& path, std::size_t bytes) {
  const task::UserInfo user = CARMA_TRY(task::LookUpUser(uid, gid));
  const FileEnd end = CARMA_TRY(ReadEndAs(user, path, bytes));
  return JsonAnswer({{"path", path}, {"text", end.text}, {"from", end.from}, {"size", end.size}});
}

}  // namespace

Result<Unit> ShowOutput(const SharedServices& services, const Call& call,
                        const api::Responder& reply) {
  const store::StoredTask stored = CARMA_TRY(Touchable(services->store, call));
  QueryReader in(call);
  const auto bytes = static_cast<std::size_t>(in.Number("bytes", kUsualBytes, 1, kMostOutputBytes));
  if (in.error()) return std::unexpected(*in.error());
  const std::string stream = call.request.Query("stream").value_or("stdout");
  if (stream != "stdout" && stream != "stderr")
    return Invalid("?stream: expected stdout or stderr");
  const std::string path = stream == "stdout" ? stored.stdout_path : stored.stderr_path;
  const std::uint32_t gid = Owns(call.caller, stored) ? call.caller.gid : stored.gid;
  const std::uint32_t uid = stored.record.request->uid;
  services->read_file(
      uid, [uid, gid, path, bytes] { return ReadEnd(uid, gid, path, bytes); },
      [reply](Answer answer) { reply(std::move(answer)); });
  return Unit{};
}

}  // namespace carma::daemon
