#include "api/views.h"
#include "api/explain_view.h"
#include "api/gpu_view.h"
#include "api/knowledge_view.h"
#include "api/reservation_view.h"
#include "api/status_view.h"
#include "api/task_view.h"

#include "api/changes_view.h"
#include "api/lease_view.h"
#include "api/overview.h"
#include "api/token_view.h"
#include "api/usage_view.h"
#include "base/fields_json.h"

namespace carma::api {

using base::Json;

template <base::HasFields View>
Json ToJson(const View& view) {
  return base::FieldsToJson(view, base::Absent::kNull);
}

template <base::HasFields View>
Result<View> FromJson(const Json& json) {
  return base::FieldsFromJson<View>(json, "", base::Unknown::kPassedOver);
}

template Json ToJson(const TaskView&);
template Json ToJson(const GpuView&);
template Json ToJson(const ReservationView&);
template Json ToJson(const GpuHistoryView&);
template Json ToJson(const ExplainView&);
template Json ToJson(const KnowledgeView&);
template Json ToJson(const EventView&);
template Json ToJson(const StatusView&);
template Json ToJson(const OverviewView&);
template Json ToJson(const UserView&);
template Json ToJson(const ChangesView&);
template Json ToJson(const TokenView&);
template Json ToJson(const LeaseView&);
template Json ToJson(const WhoView&);
template Json ToJson(const UsageView&);
template Result<TaskView> FromJson(const Json&);
template Result<UsageView> FromJson(const Json&);
template Result<GpuView> FromJson(const Json&);
template Result<ReservationView> FromJson(const Json&);
template Result<GpuHistoryView> FromJson(const Json&);
template Result<ExplainView> FromJson(const Json&);
template Result<KnowledgeView> FromJson(const Json&);
template Result<EventView> FromJson(const Json&);
template Result<StatusView> FromJson(const Json&);
template Result<OverviewView> FromJson(const Json&);
template Result<UserView> FromJson(const Json&);
template Result<ChangesView> FromJson(const Json&);
template Result<TokenView> FromJson(const Json&);
template Result<LeaseView> FromJson(const Json&);
template Result<WhoView> FromJson(const Json&);

}  // namespace carma::api
