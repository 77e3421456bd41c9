// Usage of the GPUs by users, accounts and classes, in the API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/views.h"

namespace carma::api {

// The sum over some attempts. Fields that are not grouped by are empty.
struct UsageView {
  std::string user;
  std::string account;
  std::string qos;
  std::string period;
  std::int64_t tasks = 0;
  std::int64_t attempts = 0;
  double gpu_s = 0;
  double share_s = 0;
  double waiting_s = 0;
  std::optional<double> energy_j;
  std::int64_t ooms = 0;
  double promised_mib_s = 0;
  double unused_mib_s = 0;

  static void VisitFields(auto& field, auto& view) {
    field("user", view.user, "User name.");
    field("account", view.account, "Account of the tasks; empty for none.");
    field("qos", view.qos, "Class.");
    field("period", view.period, "Month or day in UTC, 2026-03 or 2026-03-17.");
    field("tasks", view.tasks, "Tasks that held GPUs.");
    field("attempts", view.attempts, "Their starts.");
    field("gpu_s", view.gpu_s,
          "GPU time: seconds from each start to its end, for each of its GPUs.");
    field("share_s", view.share_s,
          "The same, weighted by the share that was taken from others: promised memory or "
          "predicted activity, whichever is larger.");
    field("waiting_s", view.waiting_s, "Waiting time before these starts.");
    field("energy_j", view.energy_j,
          "GPU energy in that time, divided evenly among the tasks on each; null: not known.");
    field("ooms", view.ooms, "Starts that ended for lack of GPU memory.");
    field("promised_mib_s", view.promised_mib_s,
          "GPU memory that was kept for them, multiplied by time.");
    field("unused_mib_s", view.unused_mib_s, "The part of it above the highest measured memory.");
  }
  friend bool operator==(const UsageView&, const UsageView&) = default;
};

}  // namespace carma::api
