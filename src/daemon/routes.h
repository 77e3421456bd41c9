// The API's endpoints on top of the engine. One table; who may do what is decided here, from the
// peer's credentials.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "api/http.h"
#include "api/views.h"
#include "base/clock.h"
#include "config/settings.h"
#include "daemon/engine.h"
#include "daemon/gpu_history.h"
#include "daemon/monitor.h"
#include "daemon/reporting.h"

namespace carma::daemon {

// What the endpoints work on. `engine` and `monitor` are null until the GPUs are known.
struct Services {
  Engine* engine = nullptr;
  Monitor* monitor = nullptr;
  store::Store* store = nullptr;
  const config::Settings* settings = nullptr;
  EstimateDesk* desk = nullptr;  // null as long as the engine is
  base::Clock* clock = nullptr;
  std::uint32_t own_uid = 0;  // the daemon's; 0: it serves everybody
  std::string waiting_for;    // why there is no engine yet
  std::function<api::StatusView()> status;
  std::function<std::string()> metrics;
  std::function<void()> close_usage;  // brings the records of GPU use up to now
  // Makes an answer on a worker's thread, then sends it from the loop. `wanted` becomes false when
  // the daemon stops. Errors: kUnavailable: too many such answers are being made.
  std::function<base::Result<base::Unit>(
      std::function<api::Response(const std::atomic<bool>& wanted)> make,
      std::function<void(api::Response)> send)>
      answer_later;
  // Calls back once the task is final, or after real seconds.
  std::function<void(core::TaskId, int seconds, std::function<void()>)> when_final;
};

class Routes {
 public:
  explicit Routes(Services services) : services_(std::move(services)) {}
  Services& services() { return services_; }
  void Handle(api::Request request, api::Responder respond);

 private:
  struct Call;   // one request with its path's parameters
  struct Entry;  // one row of the table
  struct DryRunning;
  static const Entry kTable[];

  // Endpoints.
  void Status(Call& call);
  void OpenApi(Call& call);
  void Metrics(Call& call);
  void SubmitTasks(Call& call);
  void ListTasks(Call& call);
  void ShowTask(Call& call);
  void ExplainTask(Call& call);
  void ShowSpec(Call& call);
  void ChangeTask(Call& call);
  void SetPriority(Call& call);
  void ListGpus(Call& call);
  void ShowGpuHistory(Call& call);
  void DrainGpu(Call& call);
  void ResumeGpu(Call& call);
  void ShowKnowledge(Call& call);
  void ForgetCalibration(Call& call);
  void ListEvents(Call& call);
  void Report(Call& call);

  base::Result<base::Unit> Admit(const api::Request& request, const Entry& entry) const;
  bool IsAdmin(const api::Peer& peer) const;
  // The stored task, if this peer may change it.
  base::Result<store::StoredTask> Touchable(const Call& call) const;
  api::TaskView View(const store::StoredTask& stored) const;
  // With what a look at one task adds to its row in a list.
  api::TaskView FullView(const store::StoredTask& stored) const;
  // Answers with the task as it is once the change is durable.
  Engine::Done AnswerWithTask(Call& call);
  Engine::Done AnswerWithGpu(Call& call, core::GpuIndex gpu);
  base::Result<core::GpuIndex> GpuOf(const Call& call) const;
  // The same, for what only administrators may do.
  base::Result<core::GpuIndex> ClosableGpu(const Call& call) const;
  base::Result<GpuHistoryRequest> GpuHistoryRequestOf(const Call& call, base::Time now) const;
  base::Result<ReportRequest> ReportRequestOf(const api::Request& from) const;
  void DryRun(Call& call, std::vector<task::TaskSpec> specs);
  api::Response Checked(const DryRunning& run) const;

  Services services_;
};

// Name of the user, or the number where there is none.
std::string UserName(std::uint32_t uid);

}  // namespace carma::daemon
