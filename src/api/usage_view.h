// The API's view of GPU usage by user, account and class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/views.h"

namespace carma::api {

// Usage summed over a set of attempts. Fields that the request does not group by are empty.
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
    field("account", view.account, "Account of the tasks; empty if they have none.");
    field("qos", view.qos, "Class of service.");
    field("period", view.period, "Month or day in UTC, 2026-03 or 2026-03-17.");
    field("tasks", view.tasks, "Number of tasks that held GPUs.");
    field("attempts", view.attempts, "Number of times these tasks were started.");
    field("gpu_s", view.gpu_s,
          "GPU time: each attempt's duration in seconds, times its number of GPUs.");
    field("share_s", view.share_s,
          "GPU time weighted by the share of each GPU that the attempt took: promised memory or "
          "predicted activity, whichever is larger.");
    field("waiting_s", view.waiting_s, "Total waiting time of these attempts.");
    field("energy_j", view.energy_j,
          "GPU energy used during the attempts, divided evenly among the tasks on each GPU; null "
          "if unknown.");
    field("ooms", view.ooms, "Number of attempts that ran out of GPU memory.");
    field("promised_mib_s", view.promised_mib_s,
          "GPU memory promised to the attempts, multiplied by time.");
    field("unused_mib_s", view.unused_mib_s,
          "The part of promised_mib_s above the attempts' peak memory usage.");
  }
  friend bool operator==(const UsageView&, const UsageView&) = default;
};

}  // namespace carma::api
