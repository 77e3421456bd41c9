#include "cli/estimate/activity.h"

#include <fmt/format.h>

#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "core/values/interference.h"

namespace carma::cli {
namespace {

using base::Json;
using core::Load;
using core::SharingMethod;

core::Profile ProfileOf(const api::KnowledgeView& known, const ModelWork& model) {
  core::Profile profile{.sm_active = known.sm_active, .grain = model.grain};
  if (!profile.sm_active && model.guess) profile.sm_active = model.guess->sm_active;
  if (known.sensitivity && known.pressure)
    profile.mps = core::MpsParameters{*known.sensitivity, *known.pressure};
  return profile;
}

// The first task's run time when sharing a GPU with the others, relative to its run time alone.
double SlowdownOf(SharingMethod sharing, const std::vector<Load>& loads) {
  std::vector<double> speeds(loads.size());
  core::Speeds(core::Interference{}, sharing, loads, speeds);
  return 1 / speeds.front();
}

std::vector<Load> Beside(const Load& own, std::span<const double> activities) {
  std::vector<Load> loads{own};
  for (const double each : activities) loads.push_back(core::LoadOf({.sm_active = each}));
  return loads;
}

std::string SlowdownText(const std::vector<Load>& loads) {
  return fmt::format("takes {:.2f} times as long under MPS, {:.2f} with streams",
                     SlowdownOf(SharingMethod::kMps, loads),
                     SlowdownOf(SharingMethod::kStreams, loads));
}

Json SlowdownJson(const std::vector<Load>& loads) {
  return {{"mps", SlowdownOf(SharingMethod::kMps, loads)},
          {"streams", SlowdownOf(SharingMethod::kStreams, loads)}};
}

std::string ActivitiesText(std::span<const double> activities) {
  std::vector<std::string> texts;
  for (const double each : activities) texts.push_back(fmt::format("{:.0f} %", 100 * each));
  return base::Join(texts, " + ");
}

// Where sensitivity and pressure come from; empty if they are unknown.
std::string_view MindedBy(const core::Profile& profile) {
  if (profile.mps) return "carma profile";
  return profile.sm_active && profile.grain ? "layers" : "";
}

std::string KnownText(const api::KnowledgeView& known, const ModelWork& model,
                      const core::Profile& profile) {
  if (!known.sm_active && model.guess) {
    return fmt::format(
        "SM activity: about {:.0f} % when alone (from the model's multiply-adds; mean error {:.0f} "
        "points)\n",
        100 * model.guess->sm_active, 100 * model.guess->mean_error);
  }
  if (!known.sm_active) {
    return fmt::format("SM activity: unknown, assumed to be {:.0f} %\n",
                       100 * core::kUsualActivity);
  }
  std::string text = fmt::format("SM activity: {:.0f} % when alone (by {})", 100 * *known.sm_active,
                                 base::Printable(known.profile_by, 40));
  const Load own = core::LoadOf(profile);
  if (!MindedBy(profile).empty()) {
    text += fmt::format(", s {:.3g}, p {:.3g}", own.sensitivity, own.pressure);
    if (!profile.mps) text += " (estimated from batch and layers)";
  }
  if (known.iteration_ms) text += fmt::format(", {:.4g} ms an iteration", *known.iteration_ms);
  return text + "\n";
}

}  // namespace

std::string ActivityText(const api::KnowledgeView& known, const ModelWork& model,
                         std::span<const double> beside) {
  const core::Profile profile = ProfileOf(known, model);
  const Load own = core::LoadOf(profile);
  std::string text = KnownText(known, model, profile);
  text += fmt::format("  next to an identical task: {}\n", SlowdownText({own, own}));
  if (!beside.empty()) {
    text += fmt::format("  next to {}: {}\n", ActivitiesText(beside),
                        SlowdownText(Beside(own, beside)));
  }
  return text;
}

Json ActivityJson(const api::KnowledgeView& known, const ModelWork& model,
                  std::span<const double> beside) {
  const core::Profile profile = ProfileOf(known, model);
  const Load own = core::LoadOf(profile);
  const auto told = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  const std::string_view minded_by = MindedBy(profile);
  const auto minds = [&](double value) { return minded_by.empty() ? Json(nullptr) : Json(value); };
  const auto& guess = model.guess;
  Json json = {{"sm_active", told(known.sm_active)},
               {"guessed_sm_active", guess ? Json(guess->sm_active) : Json(nullptr)},
               {"guess_mean_error", guess ? Json(guess->mean_error) : Json(nullptr)},
               {"by", known.profile_by},
               {"sensitivity", minds(own.sensitivity)},
               {"pressure", minds(own.pressure)},
               {"sensitivity_by", minded_by},
               {"iteration_ms", told(known.iteration_ms)},
               {"alone_ms", told(known.alone_ms)},
               {"slowdown_beside_itself", SlowdownJson({own, own})}};
  if (!beside.empty()) json["slowdown_beside"] = SlowdownJson(Beside(own, beside));
  return json;
}

}  // namespace carma::cli
