#include "daemon/http/endpoints/handlers.h"

#include "api/knowledge_view.h"
#include "base/json.h"
#include "base/try.h"
#include "daemon/http/endpoints/parameters.h"

namespace carma::daemon {

namespace {

// Adds the profile used to place tasks with this signature.
void ShowProfile(const estimate::AppraisalRules& rules, const std::string& signature,
                 api::KnowledgeView& view) {
  const core::Profile seen = rules.history
                                 ? estimate::ProfileFrom(rules.history->OfSignature(signature),
                                                         rules.gpu_type, rules.paces)
                                 : core::Profile{};
  const core::Profile known =
      rules.measured ? WithMeasured(seen, *rules.measured, signature, rules.gpu_type) : seen;
  view.sm_active = known.sm_active;
  if (known.mps) {
    view.sensitivity = known.mps->sensitivity;
    view.pressure = known.mps->pressure;
  }
  if (known.alone) view.alone_ms = known.alone->count();
  const profile::WorkloadProfile* here =
      rules.measured ? rules.measured->Of(signature, rules.gpu_type) : nullptr;
  if (here != nullptr) {
    if (const auto iteration_s = profile::IterationS(*here))
      view.iteration_ms = 1'000 * *iteration_s;
  }
  const bool measured = here != nullptr || known.sm_active != seen.sm_active;
  if (known.sm_active) view.profile_by = measured ? "carma profile" : "runs";
}

}  // namespace

Answer ShowKnowledge(const SharedServices& services, const Call& call) {
  const estimate::AppraisalRules& rules = services->rules;
  api::KnowledgeView view;
  view.method = rules.method;
  view.prefer_given = rules.prefer_given;
  view.coverage = rules.coverage;
  view.gpu_type = rules.gpu_type;
  view.gpu_mib = rules.gpu_mib;
  view.learns = rules.history != nullptr;
  const api::Request& request = call.request;
  const std::string signature = request.Query("signature").value_or("");
  if (!signature.empty()) ShowProfile(rules, signature, view);
  if (!view.learns) return JsonAnswer(ToJson(view));
  const estimate::Site site =
      rules.history->SiteFor(request.Query("gpu_type").value_or(rules.gpu_type));
  view.taught_by = site.taught_by;
  view.tasks = static_cast<std::int64_t>(site.tasks);
  view.context_shift_mib = site.context_shift_mib;
  view.ratios = site.ratios;
  view.calibration = site.reason;
  for (const task::Observation& run : rules.history->OfSignature(signature))
    view.runs.push_back({run});
  for (const task::Observation& run : rules.history->OfKin(request.Query("kin").value_or("")))
    view.kin_runs.push_back({run});
  return JsonAnswer(ToJson(view));
}

Result<Unit> ForgetCalibration(const SharedServices& services, const Call& call,
                               const api::Responder& reply) {
  CARMA_TRY(OnlyAdministrators(call.caller, "reset the calibration"));
  services->engine.ForgetCalibration([reply, caller = call.caller](const Result<Unit>& done) {
    LogAsked("calibration_forgotten", {}, caller, done);
    if (!done) return reply(std::unexpected(done.error()));
    reply(JsonAnswer({{"reset", true}}));
  });
  return Unit{};
}

}  // namespace carma::daemon
