#include "tests/world/requests.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/json.h"

namespace carma::world {
namespace {

using daemon::Call;

// Invalid request bodies, which must be answered with 400 (or 404, 403, 409).
constexpr std::array kHostile{
    "",
    "{",
    "[]",
    "null",
    "{\"tasks\":[]}",
    "{\"tasks\":[{}]}",
    "{\"tasks\":{\"a\":1}}",
    R"({"tasks":[{"command":["x"],"workdir":"/","gpus":-1}]})",
    R"({"tasks":[{"command":["x"],"workdir":"/","gpus":1e300}]})",
    R"({"tasks":[{"command":["x"],"workdir":"relative"}]})",
    R"({"tasks":[{"command":["x"],"workdir":"/","lease":"1 1 x"}]})",
    R"({"tasks":[{"command":["x"],"workdir":"/","time_limit_s":-5}]})",
    R"({"verb":"cancel","tasks":[-1]})",
    R"({"verb":"launch","tasks":[1]})",
    R"({"verb":"cancel","tasks":"all"})",
    R"({"uid":0})",
    R"({"command":["/bin/sh"]})",
    R"({"memory_mib":"much"})",
    "{\"comment\":\"\\u0000\"}",
};
constexpr std::array kIds{"0", "-1", "18446744073709551616", "x", "1_2", "", "99999"};
constexpr std::array kEdits{R"({"comment":"edited"})", R"({"time_limit_s":7200})",
                            R"({"time_limit_s":null})", R"({"memory_mib":3000})",
                            R"({"gpus":1,"exclusive":true})"};
constexpr std::array kVerbs{"cancel", "hold", "release"};
constexpr std::array kOrders{"desc", "asc", "turn"};

}  // namespace

Requests::Requests(daemon::Engine& engine, store::Store& store, base::Clock& clock)
    : monitor_({{"GPU-0", "A", "", 40'000, 0, true},
                {"GPU-1", "A", "", 40'000, 0, true},
                {"GPU-2", "A", "", 40'000, 0, true}},
               {}),
      services_(std::make_shared<daemon::EngineServices>(daemon::EngineServices{
          .engine = engine,
          .monitor = monitor_,
          .store = store,
          .settings = settings_,
          .clock = clock,
          .aside =
              [](const std::function<void()>& read, const std::function<void()>& then) {
                read();
                then();
              },
          .estimate =
              [](std::vector<daemon::EstimateJob> jobs, const daemon::EstimateService::Take& take) {
                std::vector<daemon::EstimateResult> results;
                for (const daemon::EstimateJob& job : jobs) {
                  daemon::EstimateResult result;
                  result.id = result.forecast.task = job.id;
                  results.push_back(std::move(result));
                }
                take(std::move(results));
              },
          .when_final = [](core::TaskId, int,
                           const std::function<void()>& answer) { answer(); }})) {
  settings_.max_batch = 1'000;
}

api::Responder Requests::Heard(const std::string& what, bool hostile) {
  return api::Responder([wrong = wrong_, what, hostile](const api::Response& response) {
    // A 500 is allowed if the disk is full.
    const bool broken = response.status >= 500 && response.status != 503 &&
                        response.body.find("\"io\"") == std::string::npos;
    const bool taken = hostile && response.status < 300;
    if (broken || taken || !base::ParseJson(response.body))
      *wrong = fmt::format("{}: {} {}", what, response.status, response.body.substr(0, 200));
  });
}

void Requests::Ask(std::uint64_t a, std::uint64_t b) {
  const core::TaskRecords& all = services_->engine.scheduler().Tasks();
  Call call;
  const auto uid = static_cast<std::uint32_t>(1000 + b % 3);
  call.caller = {uid, uid, fmt::format("user{}", uid), b % 31 == 0};
  call.id = all.empty() || b % 11 == 0
                ? std::string(kIds[b % kIds.size()])
                : std::to_string(core::Number(
                      std::next(all.begin(), static_cast<std::ptrdiff_t>(b % all.size()))->first));
  const std::string hostile = kHostile[b / 7 % kHostile.size()];
  const auto ask = [&](const char* what, auto endpoint, bool bad = false) {
    const api::Responder reply =
        Heard(fmt::format("{} of '{}' {}", what, call.id, call.request.body), bad);
    if (const base::Result<base::Unit> begun = endpoint(services_, call, reply); !begun)
      reply(std::unexpected(begun.error()));
  };
  switch (a % 9) {
    case 0:
      call.request.query = {{"order", kOrders[b % kOrders.size()]},
                            {"limit", std::to_string(1 + b % 1000)},
                            {"state", b % 2 == 0 ? "all" : "queued"}};
      return ask("list", &daemon::ListTasks);
    case 1:
      return ask("show", &daemon::ShowTask);
    case 2:
      return ask("explain", &daemon::ExplainTask);
    case 3:
      call.request.body = kEdits[b % kEdits.size()];
      return ask("edit", &daemon::EditTask);
    case 4:
      call.request.body = fmt::format(R"({{"verb":"{}","tasks":[{},{}]}})",
                                      kVerbs[b % kVerbs.size()], 1 + b % 50, 1 + a % 50);
      return ask("changes", &daemon::ChangeTasks);
    case 5:
      call.request.query = {{"check", "1"}};
      call.request.body = R"({"tasks":[{"name":"t","command":["true"],"workdir":"/","gpus":1}]})";
      return ask("check", &daemon::SubmitTasks);
    case 6:
      call.request.body = hostile;
      return ask("hostile submission", &daemon::SubmitTasks, true);
    case 7:
      call.request.body = hostile;
      return ask("hostile changes", &daemon::ChangeTasks, true);
    default:
      call.request.body = hostile;
      return ask("hostile edit", &daemon::EditTask, true);
  }
}

}  // namespace carma::world
