#include "cli/calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <type_traits>

#include "api/url.h"
#include "base/fields_json.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::cli {
namespace {

using base::Json;
using base::JsonReader;

constexpr std::chrono::seconds kRepeatFor{20};
constexpr int kRepeatAfterMs = 200;
// Maximum number of tasks per response. The daemon does not serve other clients while it writes a
// response.
constexpr std::size_t kPage = 1000;
// Long enough for the daemon to store a large batch in one transaction.
constexpr int kSubmitTimeoutS = 600;

std::string TaskPath(std::uint64_t id, const std::string& rest = "") {
  return "/v1/tasks/" + std::to_string(id) + rest;
}

// Turns the error into kIo, because an unreadable response is the daemon's fault, not the user's.
base::Error Unexpected(const base::Error& error) {
  return {ErrorCode::kIo, "response from carmad: " + error.message};
}

template <class Read, class T = typename std::invoke_result_t<Read, const Json&>::value_type>
Called<T> Parse(Result<std::string> text, Read read) {
  if (!text) return std::unexpected(text.error());
  const auto json = base::ParseJson(*text);
  if (!json) return std::unexpected(Unexpected(json.error()));
  auto value = read(*json);
  if (!value) return std::unexpected(Unexpected(value.error()));
  return Answer<T>{std::move(*value), std::move(*text)};
}

template <class T>
Called<T> Parse(Result<std::string> text) {
  return Parse(std::move(text), &api::FromJson<T>);
}

template <class T, Result<T> (*read)(const Json&) = &api::FromJson<T>>
Result<std::vector<T>> ReadList(const Json& json, const char* key) {
  std::vector<T> list;
  JsonReader in(json, "");
  const Json* items = in.Raw(key);
  if (!items || !items->is_array()) in.Complain(key, "a list");
  if (in.error()) return std::unexpected(*in.error());
  for (const Json& item : *items) list.push_back(CARMA_TRY(read(item)));
  return list;
}

template <class T>
Called<std::vector<T>> ParseList(Result<std::string> text, const char* key) {
  return Parse(std::move(text), [key](const Json& json) { return ReadList<T>(json, key); });
}

Result<Submission> ReadSubmission(const Json& json) {
  Submission submission;
  JsonReader in(json, "");
  std::int64_t first = 0;
  std::int64_t count = 0;
  if (!in.Get("first", first, 1, INT64_MAX)) in.Complain("first", "a task number");
  if (!in.Get("count", count, 1, INT64_MAX)) in.Complain("count", "a number of tasks");
  in.Get("warnings", submission.warnings);
  if (in.error()) return std::unexpected(*in.error());
  submission.first = static_cast<std::uint64_t>(first);
  submission.count = static_cast<std::uint64_t>(count);
  return submission;
}

Result<CheckedTask> ReadCheckedTask(const Json& json) {
  CheckedTask task;
  JsonReader in(json, "");
  std::string fits;
  in.Get("name", task.name);
  in.Get("gpus", task.gpus, 0, INT32_MAX);
  in.Get("predicted_mib", task.predicted_mib, 0, INT64_MAX);
  in.Get("estimate_method", task.estimate_method);
  in.Get("estimate_remarks", task.estimate_remarks);
  in.Get("fits", fits);
  in.Get("reason", task.reason);
  in.Get("reason_text", task.reason_text, 1 << 20);
  in.Get("latest_start_ms", task.latest_start_ms, 0, INT64_MAX);
  in.Get("likely_start_ms", task.likely_start_ms, 0, INT64_MAX);
  in.Get("now_ms", task.now_ms, 0, INT64_MAX);
  if (in.error()) return std::unexpected(*in.error());
  task.now = fits == "now";
  return task;
}

Result<std::vector<CheckedTask>> ReadCheck(const Json& json) {
  return ReadList<CheckedTask, &ReadCheckedTask>(json, "tasks");
}

// Returns the part of a request that describes its tasks: JSON fields without the braces around
// them. The arguments are already JSON, so they are only joined.
std::string TaskFields(const std::vector<std::string>& specs, const std::string& common,
                       const std::vector<std::int64_t>& indices) {
  if (!indices.empty())
    return fmt::format("\"spec\":{},\"array\":[{}]", specs[0], fmt::join(indices, ","));
  return (common.empty() ? "" : "\"common\":" + common + ",") + "\"tasks\":" + JsonList(specs);
}

std::string DrainBody(const std::string& reason, std::optional<base::Time> empty_by) {
  Json asked = {{"reason", reason}};
  if (empty_by) asked["by_ms"] = base::ToMs(*empty_by);
  return base::DumpJson(asked);
}

// Returns a JSON field with a unique name for the request, or "" if the kernel has no random bytes.
std::string RequestField() {
  std::array<std::uint64_t, 2> chance{};
  if (::getrandom(chance.data(), sizeof chance, 0) != static_cast<ssize_t>(sizeof chance))
    return "";
  return fmt::format("\"request\":\"{:016x}{:016x}\",", chance[0], chance[1]);
}

}  // namespace

Result<TaskPage> ListTasks(api::Client& client, const TaskQuery& query) {
  TaskPage page;
  std::optional<std::int64_t> next;
  do {
    const std::size_t wanted = std::min(kPage, query.limit - page.tasks.size());
    std::string target = "/v1/tasks?limit=" + std::to_string(wanted) + "&order=" +
                         (query.by_turn        ? "turn"
                          : query.newest_first ? "desc"
                                               : "asc");
    if (!query.states.empty()) target += "&state=" + api::Escape(query.states);
    if (!query.user.empty()) target += "&user=" + api::Escape(query.user);
    if (!query.name.empty()) target += "&name=" + api::Escape(query.name);
    if (!query.account.empty()) target += "&account=" + api::Escape(query.account);
    if (!query.qos.empty()) target += "&qos=" + api::Escape(query.qos);
    if (next) target += "&before=" + std::to_string(*next);
    const auto read = [&next](const Json& json) -> Result<std::vector<api::TaskView>> {
      auto tasks = CARMA_TRY(ReadList<api::TaskView>(json, "tasks"));
      JsonReader in(json, "");
      next.reset();
      in.Get("next", next, 0, INT64_MAX);
      if (in.error()) return std::unexpected(*in.error());
      return tasks;
    };
    auto answer = CARMA_TRY(Parse(client.Get(target), read));
    std::ranges::move(answer.value, std::back_inserter(page.tasks));
  } while (next && page.tasks.size() < query.limit);
  page.more = next.has_value();
  return page;
}

Called<api::KnowledgeView> GetKnowledge(api::Client& client, const std::string& signature,
                                        const std::string& kin, const std::string& gpu_type) {
  std::string target =
      "/v1/estimate?signature=" + api::Escape(signature) + "&kin=" + api::Escape(kin);
  if (!gpu_type.empty()) target += "&gpu_type=" + api::Escape(gpu_type);
  return Parse<api::KnowledgeView>(client.Get(target));
}

Called<api::TaskView> GetTask(api::Client& client, std::uint64_t id) {
  return Parse<api::TaskView>(client.Get(TaskPath(id)));
}

Called<api::TaskView> AwaitTask(api::Client& client, std::uint64_t id, int wait_s) {
  return Parse<api::TaskView>(
      client.Get(TaskPath(id, "?wait_s=" + std::to_string(wait_s)), wait_s + kAnswerS));
}

Called<api::ExplainView> ExplainTask(api::Client& client, std::uint64_t id) {
  return Parse<api::ExplainView>(client.Get(TaskPath(id, "/explain")));
}

Called<api::TaskView> ChangeTask(api::Client& client, std::uint64_t id, const std::string& verb) {
  return Parse<api::TaskView>(client.Call("POST", TaskPath(id, "/" + verb)));
}

Called<api::ChangesView> ChangeTasks(api::Client& client, std::span<const std::uint64_t> ids,
                                     const std::string& verb) {
  const std::string body = base::DumpJson({{"verb", verb}, {"tasks", ids}});
  return Parse<api::ChangesView>(client.Call("POST", "/v1/changes", body));
}

Called<api::TaskView> SetPriority(api::Client& client, std::uint64_t id, std::int64_t priority) {
  const std::string body = "{\"priority\":" + std::to_string(priority) + "}";
  return Parse<api::TaskView>(client.Call("POST", TaskPath(id, "/priority"), body));
}

Called<std::vector<api::GpuView>> ListGpus(api::Client& client) {
  return ParseList<api::GpuView>(client.Get("/v1/gpus"), "gpus");
}

Called<api::GpuHistoryView> GetGpuHistory(api::Client& client, const std::string& gpu,
                                          std::int64_t from_ms, std::int64_t to_ms, int points) {
  const std::string target =
      "/v1/gpus/" + api::Escape(gpu) + "/history?from_ms=" + std::to_string(from_ms) +
      "&to_ms=" + std::to_string(to_ms) + "&points=" + std::to_string(points);
  return Parse<api::GpuHistoryView>(client.Get(target));
}

Called<api::GpuView> ChangeGpu(api::Client& client, const std::string& gpu, const std::string& verb,
                               const std::string& reason, std::optional<base::Time> empty_by) {
  const std::string body = verb == "drain" ? DrainBody(reason, empty_by) : "";
  const std::string target = "/v1/gpus/" + api::Escape(gpu) + "/" + verb;
  return Parse<api::GpuView>(client.Call("POST", target, body));
}

void CloseGpus(api::Client& client, const std::vector<std::string>& gpus,
               const std::string& reason) {
  if (gpus.size() < 2) return;
  for (const std::string& gpu : gpus) (void)ChangeGpu(client, gpu, "drain", reason);
}

Called<api::StatusView> CloseServer(api::Client& client, const std::string& reason,
                                    std::optional<base::Time> empty_by) {
  return Parse<api::StatusView>(
      client.Call("POST", "/v1/server/drain", DrainBody(reason, empty_by)));
}

Called<api::StatusView> OpenServer(api::Client& client) {
  return Parse<api::StatusView>(client.Call("POST", "/v1/server/resume"));
}

Called<std::vector<api::EventView>> ListEvents(api::Client& client, const EventQuery& query) {
  std::vector<std::string> terms;
  if (query.task) terms.push_back(fmt::format("task={}", *query.task));
  if (query.limit) terms.push_back(fmt::format("limit={}", *query.limit));
  const std::string target = "/v1/events" + (terms.empty() ? "" : "?" + base::Join(terms, "&"));
  return ParseList<api::EventView>(client.Get(target), "events");
}

Called<api::StatusView> GetStatus(api::Client& client) {
  return Parse<api::StatusView>(client.Get("/v1/status"));
}

Called<api::OverviewView> GetOverview(api::Client& client) {
  return Parse<api::OverviewView>(client.Get("/v1/overview"));
}

Called<std::vector<api::TokenView>> ListTokens(api::Client& client, bool all) {
  return ParseList<api::TokenView>(client.Get(all ? "/v1/tokens?all=1" : "/v1/tokens"), "tokens");
}

Called<api::TokenView> MakeToken(api::Client& client, const std::string& name,
                                 std::optional<base::Duration> life) {
  Json body = {{"name", name}};
  if (life) body["expires_s"] = life->count() / 1000;
  return Parse<api::TokenView>(client.Call("POST", "/v1/tokens", base::DumpJson(body)));
}

Called<std::vector<api::ReservationView>> ListReservations(api::Client& client) {
  return ParseList<api::ReservationView>(client.Get("/v1/reservations"), "reservations");
}

Called<api::ReservationView> Reserve(api::Client& client, const core::Reservation& reservation) {
  const Json body = base::FieldsToJson(reservation, base::Absent::kLeftOut);
  return Parse<api::ReservationView>(client.Call("POST", "/v1/reservations", base::DumpJson(body)));
}

Called<std::vector<api::UsageView>> ListUsage(api::Client& client, const std::string& query) {
  return ParseList<api::UsageView>(client.Get("/v1/usage?" + query, kBooksAnswerS), "usage");
}

// Retries the request for a while if the connection drops, for example because the daemon is
// restarting. The daemon recognises a repeated submission by its name.
Called<Submission> SubmitTasks(api::Client& client, const std::vector<std::string>& specs,
                               const std::string& common,
                               const std::vector<std::int64_t>& indices) {
  const std::string body = "{" + RequestField() + TaskFields(specs, common, indices) + "}";
  Result<std::string> answer = client.Call("POST", "/v1/tasks", body, kSubmitTimeoutS);
  if (!answer && client.cut()) {
    const auto patience = std::chrono::steady_clock::now() + kRepeatFor;
    while (!answer && answer.error().code == ErrorCode::kUnavailable &&
           std::chrono::steady_clock::now() < patience) {
      ::poll(nullptr, 0, kRepeatAfterMs);
      answer = client.Call("POST", "/v1/tasks", body, kSubmitTimeoutS);
    }
  }
  return Parse(std::move(answer), &ReadSubmission);
}

Called<std::vector<CheckedTask>> CheckTasks(api::Client& client,
                                            const std::vector<std::string>& specs,
                                            const std::string& common,
                                            const std::vector<std::int64_t>& indices) {
  const std::string body = "{" + TaskFields(specs, common, indices) + "}";
  return Parse(client.Call("POST", "/v1/tasks?check=1", body, kSubmitTimeoutS), &ReadCheck);
}

Called<Submission> RedoTask(api::Client& client, std::uint64_t id, const std::string& changes) {
  return Parse(client.Call("POST", TaskPath(id, "/redo"), changes, kSubmitTimeoutS),
               &ReadSubmission);
}

Called<api::TaskView> EditTask(api::Client& client, std::uint64_t id, const std::string& changes) {
  return Parse<api::TaskView>(client.Call("PATCH", TaskPath(id), changes));
}

std::string CommonJson(const task::SubmitterContext& caller) {
  return base::DumpJson(
      {{"workdir", caller.cwd}, {"environment", caller.environment}, {"umask", caller.umask}});
}

std::string TasksJson(const TaskPage& page) {
  Json tasks = Json::array();
  for (const api::TaskView& task : page.tasks) tasks.push_back(ToJson(task));
  return base::DumpJson({{"tasks", std::move(tasks)}, {"more", page.more}});
}

std::string GpusJson(const std::vector<api::GpuView>& gpus) {
  Json list = Json::array();
  for (const api::GpuView& gpu : gpus) list.push_back(ToJson(gpu));
  return base::DumpJson({{"gpus", std::move(list)}});
}

std::string JsonList(const std::vector<std::string>& texts) {
  return "[" + base::Join(texts, ",") + "]";
}

std::string JsonString(const std::string& text) {
  return base::DumpJson(Json(text));
}

}  // namespace carma::cli
