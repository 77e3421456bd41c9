// Fuzzes data received over the socket: request targets, and the daemon's responses as the `carma`
// command reads them.
#include "api/explain_view.h"
#include "api/gpu_view.h"
#include "api/status_view.h"
#include "api/task_view.h"
#include "api/url.h"
#include "api/views.h"
#include "base/json.h"
#include "base/result.h"
#include "entries.h"

namespace carma::fuzz {
namespace {

// Checks that a view is unchanged after it is written and read again.
template <class View>
void RoundTrip(const base::Json& json) {
  const auto view = api::FromJson<View>(json);
  if (!view) return;
  const std::string text = base::DumpJson(ToJson(*view));
  const auto again = base::ParseJson(text);
  CARMA_CHECK(again, "a written view is valid JSON");
  const auto back = api::FromJson<View>(*again);
  CARMA_CHECK(back && base::DumpJson(ToJson(*back)) == text, "a view survives a round trip");
}

}  // namespace

void FuzzTarget(std::string_view bytes) {
  const auto target = api::ParseTarget(bytes);
  if (!target) return;
  std::string again = "/" + api::Escape(std::string_view(target->path).substr(1)) + "?";
  for (const auto& [key, value] : target->query) {
    again += api::Escape(key) + "=" + api::Escape(value) + "&";
  }
  const auto back = api::ParseTarget(again);
  CARMA_CHECK(back && back->path == target->path, "a path survives escaping");
  CARMA_CHECK(back->query.size() <= target->query.size(), "no query grows");
}

void FuzzViews(std::string_view bytes) {
  const auto json = base::ParseJson(bytes);
  if (!json) return;
  RoundTrip<api::TaskView>(*json);
  RoundTrip<api::GpuView>(*json);
  RoundTrip<api::GpuHistoryView>(*json);
  RoundTrip<api::ExplainView>(*json);
  RoundTrip<api::EventView>(*json);
  RoundTrip<api::StatusView>(*json);
}

}  // namespace carma::fuzz
