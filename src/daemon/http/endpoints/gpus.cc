#include "daemon/http/endpoints/handlers.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/gpus/gpu_history.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/present/metrics.h"
#include "daemon/present/present.h"

namespace carma::daemon {
namespace {

using base::Json;

constexpr base::Duration kUsualHistory{std::chrono::hours(1)};
constexpr std::int64_t kUsualHistoryPoints = 60;
constexpr std::int64_t kFigurePoints = 400;  // more points could not be told apart
// Roll-ups for spans up to this length are read on the event loop. This takes 23 ms for eight GPUs
// in an unoptimised build.
constexpr base::Duration kHistoryReadAtOnce{std::chrono::hours(6)};
// A reading is valid for at most this number of sampling periods.
constexpr int kPeriodsOfAReading = 10;
constexpr std::int64_t kLastMs = core::kMaxBeginMs;

Result<core::GpuIndex> GpuOf(const SharedServices& services, const Call& call) {
  if (const std::optional<core::GpuIndex> gpu = services->engine.GpuByUuid(call.id)) return *gpu;
  const std::optional<std::int64_t> number = base::ParseInt(call.id);
  const std::size_t count = services->engine.scheduler().GpuInfos().size();
  if (number && *number >= 0 && *number < static_cast<std::int64_t>(count))
    return static_cast<core::GpuIndex>(*number);
  return NotFound("GPU '{}': expected a UUID or an index below {}", base::Printable(call.id, 60),
                  count);
}

// Finds the GPU {id} for a call that only administrators may make.
Result<core::GpuIndex> ClosableGpu(const SharedServices& services, const Call& call) {
  CARMA_TRY(OnlyAdministrators(call.caller, "close and reopen GPUs"));
  return GpuOf(services, call);
}

std::vector<api::GpuView> Views(const SharedServices& services) {
  return PresentGpus(services->engine, services->monitor, services->clock.Now());
}

// Returns a callback to run once the change is durable. It responds with the GPU, and logs `event`
// and the user who closed or opened the GPU.
Engine::Done AnswerWithGpu(const SharedServices& services, core::GpuIndex gpu,
                           std::string_view event, const DrainAsked& asked, const Caller& caller,
                           const api::Responder& reply) {
  return [services, gpu, event, asked, caller, reply](const Result<Unit>& done) {
    std::vector<base::Field> fields = {
        {"gpu", gpu}, {"uuid", services->monitor.devices().at(core::Number(gpu)).uuid}};
    if (asked.empty_by) fields.emplace_back("empty_by", base::FormatTimeIso(*asked.empty_by));
    if (!asked.why.empty()) fields.emplace_back("why", asked.why);
    LogAsked(event, std::move(fields), caller, done);
    if (!done) return reply(std::unexpected(done.error()));
    reply(JsonAnswer(ToJson(Views(services).at(core::Number(gpu)))));
  };
}

std::string UntilText(std::optional<base::Time> empty_by) {
  return empty_by ? ", must be empty by " + base::FormatTimeIso(*empty_by) : "";
}

// Builds the drain to be stored. If an administrator has already drained the GPU, keeps that
// drain's reason and deadline unless the request specifies new ones.
Result<core::DrainRequested> NextDrain(const SharedServices& services, core::GpuIndex gpu,
                                       const DrainAsked& asked, const std::string& user) {
  const std::string& uuid = services->engine.scheduler().GpuInfos().at(core::Number(gpu)).uuid;
  const std::vector<store::Drain> drains = CARMA_TRY(services->store.Drains());
  const auto before = std::ranges::find_if(
      drains, [&](const store::Drain& each) { return each.gpu_uuid == uuid && !each.by_rule; });
  const bool again = before != drains.end();
  core::DrainRequested drain{gpu, "drained by " + user, false, asked.empty_by};
  if (again && !drain.empty_by) drain.empty_by = before->empty_by;
  if (!asked.why.empty()) {
    drain.why += ": " + base::Printable(asked.why, 500);
  } else if (again) {
    drain.why = before->why;
    const std::string until = UntilText(before->empty_by);
    if (drain.why.ends_with(until)) drain.why.resize(drain.why.size() - until.size());
  }
  drain.why += UntilText(drain.empty_by);
  return drain;
}

struct AskedSpan {
  base::Time from, to;
  int points = 0;
};

Result<AskedSpan> SpanOf(const Call& call, base::Time now, std::int64_t usual_points) {
  QueryReader in(call);
  const std::int64_t to_ms = in.Number("to_ms", base::ToMs(now), 0, kLastMs);
  const std::int64_t hour_before = std::max<std::int64_t>(0, to_ms - kUsualHistory.count());
  const std::int64_t from_ms = in.Number("from_ms", hour_before, 0, kLastMs);
  const std::int64_t points = in.Number("points", usual_points, 1, kMostHistoryPoints);
  if (in.error()) return std::unexpected(*in.error());
  if (from_ms >= to_ms) return Invalid("?from_ms: expected a time before to_ms ({})", to_ms);
  return AskedSpan{base::FromMs(from_ms), base::FromMs(to_ms), static_cast<int>(points)};
}

GpuHistoryRequest RequestOf(const SharedServices& services, core::GpuIndex gpu,
                            const AskedSpan& span) {
  GpuHistoryRequest request;
  request.from = span.from;
  request.to = span.to;
  request.points = span.points;
  const gpu::DeviceInfo& device = services->monitor.devices().at(core::Number(gpu));
  request.gpu.index = core::Number(gpu);
  request.gpu.uuid = device.uuid;
  request.gpu.name = device.name;
  request.readings = services->monitor.History(gpu, request.from, request.to);
  request.longest = kPeriodsOfAReading * services->settings.sample_period;
  return request;
}

}  // namespace

Answer ListGpus(const SharedServices& services, const Call&) {
  Json gpus = Json::array();
  for (const api::GpuView& view : Views(services)) gpus.push_back(ToJson(view));
  return JsonAnswer({{"gpus", std::move(gpus)}});
}

Answer ShowTaskMetrics(const SharedServices& services, const Call&) {
  return api::Response{200, TaskMetricsText(Views(services)),
                       "text/plain; version=0.0.4; charset=utf-8"};
}

Result<Unit> ShowGpuHistory(const SharedServices& services, const Call& call,
                            const api::Responder& reply) {
  const base::Time now = services->clock.Now();
  const core::GpuIndex gpu = CARMA_TRY(GpuOf(services, call));
  const AskedSpan span = CARMA_TRY(SpanOf(call, now, kUsualHistoryPoints));
  GpuHistoryRequest request = RequestOf(services, gpu, span);
  if (request.from >= now - kHistoryReadAtOnce) {
    const std::vector<store::GpuUsage> rows =
        CARMA_TRY(services->store.Usage(request.from, request.to));
    reply(JsonAnswer(ToJson(GpuHistory(request, rows))));
    return Unit{};
  }
  return services->answer_later(
      [request = std::move(request),
       folder = services->settings.state_dir](const std::atomic<bool>& wanted) {
        return TextAnswer(GpuHistoryText(request, folder, wanted));
      },
      reply);
}

Result<Unit> DrawGpuHistory(const SharedServices& services, const Call& call,
                            const api::Responder& reply) {
  const AskedSpan span = CARMA_TRY(SpanOf(call, services->clock.Now(), kFigurePoints));
  if (services->monitor.devices().empty()) return NotFound("no GPUs found");
  GpuFiguresRequest request;
  QueryReader in(call);
  request.clock = in.Clock(span.to);
  if (in.error()) return std::unexpected(*in.error());
  request.running = services->engine.RunningAttempts();
  for (std::size_t i = 0; i < services->monitor.devices().size(); ++i) {
    const gpu::DeviceInfo& device = services->monitor.devices()[i];
    request.gpus.push_back(RequestOf(services, static_cast<core::GpuIndex>(i), span));
    request.usable_mib.push_back(device.total_mib - device.reserved_mib);
  }
  return services->answer_later(
      [request = std::move(request),
       folder = services->settings.state_dir](const std::atomic<bool>& wanted) {
        return ReportPage(GpuFigures(request, folder, wanted));
      },
      reply);
}

Result<Unit> DrainGpu(const SharedServices& services, const Call& call,
                      const api::Responder& reply) {
  const core::GpuIndex gpu = CARMA_TRY(ClosableGpu(services, call));
  const DrainAsked asked = CARMA_TRY(ReadDrain(call, services->clock.Now()));
  const core::DrainRequested drain = CARMA_TRY(NextDrain(services, gpu, asked, call.caller.user));
  services->engine.Drain(drain,
                         AnswerWithGpu(services, gpu, "gpu_drain", asked, call.caller, reply));
  return Unit{};
}

Result<Unit> ResumeGpu(const SharedServices& services, const Call& call,
                       const api::Responder& reply) {
  const core::GpuIndex gpu = CARMA_TRY(ClosableGpu(services, call));
  services->engine.Resume(
      {gpu}, [&monitor = services->monitor, gpu,
              answer = AnswerWithGpu(services, gpu, "gpu_resume", {}, call.caller, reply)](
                 const Result<Unit>& done) {
        if (done) monitor.Acknowledge(gpu);
        answer(done);
      });
  return Unit{};
}

}  // namespace carma::daemon
