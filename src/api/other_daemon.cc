// Finds out whether another user's carmad manages the GPUs of this machine.
#include "api/other_daemon.h"

#include <unistd.h>

#include "api/http.h"
#include "api/status_view.h"
#include "api/views.h"
#include "base/file.h"
#include "base/json.h"
#include "base/user.h"

namespace carma::api {

Result<Unit> CheckNoOtherDaemon(const std::string& socket, const std::string& option) {
  constexpr int kPatienceS = 2;
  Client client(socket);
  const Result<std::string> text = client.Get("/v1/status", kPatienceS);
  if (!text) {
    const std::string trace = socket + ".ends";  // remains after a stop until the machine reboots
    if (!base::IsFolder(trace)) return Unit{};
    return Conflict(
        "root's carmad manages the GPUs of this server but does not respond ({} exists); {} would "
        "start a second carmad, which does not know about the first one's tasks",
        trace, option);
  }
  const Result<base::Json> json = base::ParseJson(*text);
  if (!json) return Unit{};
  const Result<StatusView> status = FromJson<StatusView>(*json);
  if (!status || status->uid == ::getuid()) return Unit{};
  return Conflict(
      "{}'s carmad (process {}, {}) already manages the GPUs of this server: submit to it with "
      "'carma', or start a second carmad with {} (neither knows about the other's tasks)",
      base::UserName(static_cast<uid_t>(status->uid)), status->pid, socket, option);
}

}  // namespace carma::api
