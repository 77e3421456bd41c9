#include <string>

#include "base/result.h"
#include "base/text.h"
#include "config/settings.h"
#include "entries.h"
#include "report/report.h"

namespace carma::fuzz {

void FuzzConfig(std::string_view bytes) {
  const auto loaded = config::LoadText("fuzz.toml", bytes, /*root=*/true);
  if (!loaded) {
    CARMA_CHECK(base::IsUtf8(loaded.error().message), "a readable error");
    CARMA_CHECK(loaded.error().message.find('\n') == std::string::npos, "one line");
    return;
  }
  // What `carma config show` prints is a configuration again, and the same one.
  std::string shown;
  for (const auto& [name, origin] : loaded->origins) shown += name + " = " + origin.value + "\n";
  const auto again = config::LoadText("shown.toml", shown, /*root=*/true);
  CARMA_CHECK(again || loaded->settings.published, "the shown configuration is sound");
  if (!again) return;
  for (const auto& [name, origin] : again->origins) {
    CARMA_CHECK(origin.value == loaded->origins.at(name).value || loaded->settings.published,
                "the shown configuration is the same");
  }
}

void FuzzReport(std::string_view bytes) {
  const auto metrics = report::FromJsonText(std::string(bytes));
  if (!metrics) {
    CARMA_CHECK(base::IsUtf8(metrics.error().message), "a readable error");
    return;
  }
  CARMA_CHECK(report::FromJsonText(report::ToJsonText(*metrics)) == *metrics, "round trip");
  CARMA_CHECK(!report::Table(*metrics).empty(), "a table");
}

}  // namespace carma::fuzz
