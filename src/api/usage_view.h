// The API's view of the GPU usage of users, accounts and classes.
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
    field("account", view.account, "Account of the tasks; empty: no account.");
    field("qos", view.qos, "Class of service.");
    field("period", view.period, "Month or day in UTC, 2026-03 or 2026-03-17.");
    field("tasks", view.tasks, "Number of tasks that held GPUs.");
    field("attempts", view.attempts, "Number of times these tasks were started.");
    field("gpu_s", view.gpu_s,
          "GPU time: the duration of each attempt in seconds, times its number of GPUs.");
    field("share_s", view.share_s,
          "GPU time weighted by the share kept from other tasks: promised memory or "
          "predicted activity, whichever is larger.");
    field("waiting_s", view.waiting_s, "Total waiting time before these starts.");
    field("energy_j", view.energy_j,
          "GPU energy during the attempts, divided evenly among the tasks on each GPU; null: "
          "unknown.");
    field("ooms", view.ooms, "Number of attempts that ran out of GPU memory.");
    field("promised_mib_s", view.promised_mib_s,
          "GPU memory promised to the attempts, multiplied by time.");
    field("unused_mib_s", view.unused_mib_s,
          "The part of promised_mib_s above the highest measured memory.");
  }
  friend bool operator==(const UsageView&, const UsageView&) = default;
};

}  // namespace carma::api
