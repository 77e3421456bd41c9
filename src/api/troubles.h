// The sentences of StatusView::troubles, as the daemon writes them. A command that shows the same
// fact elsewhere builds the same sentence in order to filter out the duplicate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace carma::api {

inline constexpr std::string_view kDriverIsWell = "ok";  // StatusView::driver

// why: StatusView::driver.
std::string TroubleOfDriver(std::string_view why);
std::string TroubleOfStore(std::string_view why);
// The configuration was reread and rejected.
std::string TroubleOfConfiguration(std::string_view why);
// A group in daemon.allow_groups does not exist. why: names the group.
std::string UnknownGroup(std::string_view why);
// Predictions have become inaccurate. why: which predictions, and how they are wrong.
std::string TroubleOfEstimates(std::string_view why);
// The whole server accepts no tasks until its machine has been rebooted. why: StatusView::closed.
std::string ServerIsClosed(std::string_view why);
// Something is wrong with one GPU. why: GpuView::trouble, or one of its alerts.
std::string TroubleOfGpu(std::int64_t index, std::string_view why);
// The health rules have closed the GPU to new tasks.
std::string ClosedByRule(std::int64_t index, std::string_view why);

}  // namespace carma::api
