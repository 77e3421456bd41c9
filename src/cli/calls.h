// Typed calls to the daemon's API, without JSON in the interface.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/changes_view.h"
#include "api/explain_view.h"
#include "api/gpu_view.h"
#include "api/http.h"
#include "api/knowledge_view.h"
#include "api/overview.h"
#include "api/reservation_view.h"
#include "api/status_view.h"
#include "api/task_view.h"
#include "api/token_view.h"
#include "api/usage_view.h"
#include "base/result.h"
#include "core/values/reservation.h"
#include "task/describe/description.h"

namespace carma::cli {

constexpr int kAnswerS = 60;        // how long a call waits for its response
constexpr int kBooksAnswerS = 600;  // for calls that read a year of records

// The response to a call: its parsed value, and its original text (for --json).
template <class T>
struct Answer {
  T value;
  std::string text;
};
template <class T>
using Called = Result<Answer<T>>;

struct TaskQuery {
  std::string states;        // comma-separated, or "all"; empty for unfinished tasks
  std::string user;          // empty for all users
  std::string name;          // empty for any
  std::string account = {};  // empty for any
  std::string qos = {};      // class of service; empty for any
  std::size_t limit = 100;
  bool newest_first = false;
  bool by_turn = false;  // in queue order
};
struct TaskPage {
  std::vector<api::TaskView> tasks;
  bool more = false;  // there are more tasks than the limit
};
// Requests page after page until there are no more tasks or query.limit is reached.
Result<TaskPage> ListTasks(api::Client& client, const TaskQuery& query);

Called<api::TaskView> GetTask(api::Client& client, std::uint64_t id);
// Waits up to wait_s seconds for the task to end.
Called<api::TaskView> AwaitTask(api::Client& client, std::uint64_t id, int wait_s);
Called<api::ExplainView> ExplainTask(api::Client& client, std::uint64_t id);
// verb: "cancel", "hold", "release" or "requeue".
Called<api::TaskView> ChangeTask(api::Client& client, std::uint64_t id, const std::string& verb);
// Changes 1 to api::kMostChanges tasks in one request.
Called<api::ChangesView> ChangeTasks(api::Client& client, std::span<const std::uint64_t> ids,
                                     const std::string& verb);
Called<api::TaskView> SetPriority(api::Client& client, std::uint64_t id, std::int64_t priority);

Called<std::vector<api::GpuView>> ListGpus(api::Client& client);
// The history from `from_ms` to `to_ms` on the daemon's clock, divided into at most `points` equal
// spans.
Called<api::GpuHistoryView> GetGpuHistory(api::Client& client, const std::string& gpu,
                                          std::int64_t from_ms, std::int64_t to_ms, int points);
// gpu: index or UUID. verb: "resume", or "drain" with a reason. empty_by: when the remaining tasks
// are stopped; empty for never.
Called<api::GpuView> ChangeGpu(api::Client& client, const std::string& gpu, const std::string& verb,
                               const std::string& reason, std::optional<base::Time> empty_by = {});
// Closes these GPUs to new tasks before the caller drains them one by one with a deadline.
// Otherwise a task requeued from the first GPU could start on the next one. Does nothing for a
// single GPU. Ignores errors; later calls report them.
void CloseGpus(api::Client& client, const std::vector<std::string>& gpus,
               const std::string& reason);

// Closes the whole server before its machine goes down. If empty_by is empty, the tasks get the
// configured notice period.
Called<api::StatusView> CloseServer(api::Client& client, const std::string& reason,
                                    std::optional<base::Time> empty_by);
Called<api::StatusView> OpenServer(api::Client& client);

// Gets what the server has learned from finished tasks, for the estimators. An empty gpu_type means
// the server's most common type.
Called<api::KnowledgeView> GetKnowledge(api::Client& client, const std::string& signature,
                                        const std::string& kin, const std::string& gpu_type);

struct EventQuery {
  std::optional<std::uint64_t> task;
  std::optional<std::size_t> limit;
};
Called<std::vector<api::EventView>> ListEvents(api::Client& client, const EventQuery& query);
Called<api::StatusView> GetStatus(api::Client& client);
Called<api::OverviewView> GetOverview(api::Client& client);

// all: list every user's tokens (administrators only).
Called<std::vector<api::TokenView>> ListTokens(api::Client& client, bool all);
// life: how long the token is valid, at most 366 days; the daemon's default if empty.
Called<api::TokenView> MakeToken(api::Client& client, const std::string& name,
                                 std::optional<base::Duration> life);
Called<std::vector<api::ReservationView>> ListReservations(api::Client& client);
Called<api::ReservationView> Reserve(api::Client& client, const core::Reservation& reservation);
// query: "by=user&after_ms=…".
Called<std::vector<api::UsageView>> ListUsage(api::Client& client, const std::string& query);

struct Submission {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::vector<std::string> warnings;
};
// specs: JSON texts of task::TaskSpec. common: a JSON object with the fields that the specs omit,
// or empty. indices: the array indices; empty if this is not an array. One request submits all
// tasks or none. It is retried for a few seconds if the connection drops; its unique name keeps the
// daemon from accepting it twice.
Called<Submission> SubmitTasks(api::Client& client, const std::vector<std::string>& specs,
                               const std::string& common = "",
                               const std::vector<std::int64_t>& indices = {});

struct CheckedTask {
  std::string name;
  std::int64_t gpus = 1;
  std::optional<std::int64_t> predicted_mib;
  std::string estimate_method;
  std::vector<std::string> estimate_remarks;
  bool now = false;  // the task could start immediately
  std::optional<std::int64_t> latest_start_ms;
  std::optional<std::int64_t> likely_start_ms;
  std::int64_t now_ms = 0;  // the daemon's clock
  std::string reason;
  std::string reason_text;
  friend bool operator==(const CheckedTask&, const CheckedTask&) = default;
};
// A dry run of SubmitTasks(). Returns kConflict if a task can never run here.
Called<std::vector<CheckedTask>> CheckTasks(api::Client& client,
                                            const std::vector<std::string>& specs,
                                            const std::string& common,
                                            const std::vector<std::int64_t>& indices = {});

// Submits the task again as a new task of the same owner, without its dependencies, begin time or
// hold. changes: a JSON object with the fields that differ, or empty.
Called<Submission> RedoTask(api::Client& client, std::uint64_t id, const std::string& changes = "");
// changes: a JSON object with fields of the task's description; null removes a field.
Called<api::TaskView> EditTask(api::Client& client, std::uint64_t id, const std::string& changes);
// The default fields for the tasks of a batch: {"workdir": …, "environment": {…}, "umask": …}.
std::string CommonJson(const task::SubmitterContext& caller);

// Writes views as JSON text for --json: {"tasks":[…]}.
std::string TasksJson(const TaskPage& page);
// Writes {"gpus":[…]}.
std::string GpusJson(const std::vector<api::GpuView>& gpus);
// Joins JSON texts as "[a,b]".
std::string JsonList(const std::vector<std::string>& texts);
std::string JsonString(const std::string& text);

}  // namespace carma::cli
