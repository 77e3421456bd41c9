#include "daemon/http/endpoints/page.h"

#include "base/host.h"
#include "base/json.h"
#include "base/text.h"
#include "daemon/present/overview.h"
#include "page/files.h"

namespace carma::daemon {
namespace {

using base::Json;

// Each open page requests the overview once a second, at different times. One overview per second
// is enough for all pages.
constexpr std::chrono::milliseconds kOverviewKept{900};
// How long the list of users is cached. Counting 100 000 tasks takes milliseconds.
constexpr std::chrono::seconds kUsersKept{5};

Json UsersJson(Engine& engine) {
  Json users = Json::array();
  for (const api::UserView& user : Users(engine)) users.push_back(ToJson(user));
  return {{"users", std::move(users)}};
}

Answer FileAnswer(const page::File& file, const api::Request& request) {
  api::Response response;
  response.content_type = file.content_type;
  response.headers = {{"ETag", file.etag},
                      {"Cache-Control", "no-cache"},
                      {"Vary", "Accept-Encoding"},
                      {"Content-Security-Policy", std::string(page::kPagePolicy)},
                      {"Referrer-Policy", "no-referrer"}};
  if (request.if_none_match == file.etag) {
    response.status = 304;
    return response;
  }
  if (request.accepts_gzip) response.headers.emplace_back("Content-Encoding", "gzip");
  response.body = request.accepts_gzip ? file.gzip : std::string(file.text);
  return response;
}

}  // namespace

PageServices::PageServices(std::function<api::StatusView()> status, const SharedServices& engine)
    : overview(std::make_shared<CachedResponse>(
          [status = std::move(status), engine, host = base::HostName(),
           starts = KeptStarts()]() mutable {
            api::OverviewView view =
                Overview(status(), host, engine && !engine->settings.simgpu_state.empty());
            if (engine)
              AddTasksAndGpus(engine->engine, engine->monitor, starts, engine->clock.Now(), view);
            return ToJson(view);
          },
          kOverviewKept)) {
  if (!engine) return;
  users =
      std::make_shared<CachedResponse>([engine] { return UsersJson(engine->engine); }, kUsersKept);
}

Answer ShowPage(const PageServices&, const Call& call) {
  return FileAnswer(*page::Find(page::kIndex), call.request);
}

Answer ShowPageFile(const PageServices&, const Call& call) {
  const page::File* file = page::Find(call.id);
  if (file == nullptr) return NotFound("the page has no file '{}'", base::Printable(call.id, 60));
  return FileAnswer(*file, call.request);
}

Answer ShowOverview(const PageServices& services, const Call& call) {
  return services.overview->Answer(call.request);
}

Answer ListUsers(const PageServices& services, const Call& call) {
  return services.users->Answer(call.request);
}

}  // namespace carma::daemon
