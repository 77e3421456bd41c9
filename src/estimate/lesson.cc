#include "estimate/lesson.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/values/pace.h"
#include "core/values/task.h"
#include "estimate/signature.h"

namespace carma::estimate {
namespace {

bool RanOut(const core::TaskRecord& record) {
  return record.exit->kind == core::ExitKind::kOutOfMemory;
}

}  // namespace

bool Teaches(const core::TaskRecord& record, base::Duration watched) {
  if (record.peak_mib <= 0) return false;
  const bool full_run =
      (record.state == core::TaskState::kSucceeded || record.state == core::TaskState::kTimedOut) &&
      watched >= kLeastWatched;
  return RanOut(record) || full_run;
}

RanOn RanOnOf(std::span<const core::GpuIndex> its, std::span<const core::GpuInfo> gpus) {
  const std::vector<double> paces = core::PacesOf(gpus);
  RanOn where{.gpu_type = gpus[core::Number(its.front())].type};
  for (const core::GpuIndex gpu : its) where.pace = std::min(where.pace, paces[core::Number(gpu)]);
  return where;
}

task::Observation LessonOf(const core::TaskRecord& record, const task::TaskSpec& spec,
                           const RanOn& where, const std::string& model,
                           const std::optional<task::FormulaSplit>& formula, base::Time now) {
  task::Observation lesson;
  lesson.task = record.id;
  lesson.when = now;
  lesson.uid = record.request->uid;
  lesson.signature = Signature(spec, lesson.uid, model);
  lesson.kin = Kin(spec, lesson.uid);
  lesson.relation = Relation(spec, lesson.uid, model);
  const Amounts amounts = AmountsOf(spec);
  lesson.batch = amounts.batch;
  lesson.length = amounts.length;
  lesson.gpu_type = where.gpu_type;
  if (record.estimate) {
    lesson.method = record.estimate->method;
    lesson.predicted_mib = record.estimate->predicted_mib.value_or(record.estimate->peak_mib);
    lesson.promised_mib = record.estimate->peak_mib;
  }
  lesson.measured_mib = record.peak_mib;
  lesson.ran_out = RanOut(record);
  lesson.sm_active = record.seen->sm_active;
  lesson.cpus = record.seen->cpus;
  lesson.others_share = record.seen->others_share;
  if (record.state == core::TaskState::kSucceeded && record.seen->alone) {
    const auto fastest_ms = static_cast<double>(record.seen->alone->count());
    lesson.alone = base::Duration(std::llround(fastest_ms / where.pace));
  }
  lesson.formula = formula;
  return lesson;
}

}  // namespace carma::estimate
