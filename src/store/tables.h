// The tables of the database. For each table, a single list pairs columns with members. The SQL
// names, binding and reading all use this list, so that none of them can miss a column.
#pragma once

#include <string_view>

#include "base/copy_on_write.h"
#include "base/fields.h"
#include "store/store.h"

namespace carma::store {

// ---- task ----

// The columns that store a request. All but three have the names of the API fields.
template <class Visitor>
class RequestColumns {
 public:
  explicit RequestColumns(Visitor& column) : column_(&column) {}
  template <class Value>
  void operator()(const char* name, Value& value, const char* = "", const base::FieldRule& = {}) {
    const std::string_view field = name;
    (*column_)(field == "time_limit_s"      ? "time_limit_ms"
               : field == "signal_before_s" ? "signal_before_ms"
               : field == "held" ? "submitted_held"  // column `held`: whether it is held now
                                 : name,
               value);
  }

 private:
  Visitor* column_;
};

// Gives a visitor access to a value that may be shared. Write access makes a private copy first.
template <class T>
const T& Inside(const base::CopyOnWrite<T>& value) {
  return *value;
}
template <class T>
T& Inside(base::CopyOnWrite<T>& value) {
  return value.Edit();
}

// The columns that PutRecord may change. `record` is a core::TaskRecord, const or not.
void VisitRecord(auto& column, auto& record, auto& gpu_uuids) {
  auto& request = Inside(record.request);
  auto& profile = Inside(record.profile);
  auto& seen = Inside(record.seen);
  auto& attempt = Inside(record.attempt);
  auto& exit = Inside(record.exit);
  column("state", record.state);
  column("uid", request.uid);
  column("array_id", request.array);
  RequestColumns columns(column);
  core::TaskRequest::VisitFields(columns, request);
  column("queue", record.queue);
  column("held", record.held);
  column("reason", record.reason.code);
  column("reason_text", Inside(record.reason.text));
  column("estimate_mib", "estimate_method", "predicted_mib", Inside(record.estimate));
  column("kind", record.kind);
  column("profile_sm_active", profile.sm_active);
  column("profile_sensitivity", "profile_pressure", profile.mps);
  column("profile_grain", profile.grain);
  column("profile_cpus", profile.cpus);
  column("profile_others_share", profile.others_share);
  column("profile_alone_ms", profile.alone);
  column("seen_sm_active", seen.sm_active);
  column("seen_alone_ms", seen.alone);
  column("attempt", attempt.number);
  column("ooms", record.ooms);
  column("launch_failures", record.launch_failures);
  column("node_failures", record.node_failures);
  column("victim_restarts", record.victim_restarts);
  column("checkpoints", record.checkpoints);
  column("cut_off", record.cut_off);
  column("retry_free_mib", record.retry_free_mib);
  column("retry_on_idle_gpu", record.retry_on_idle_gpu);
  column("not_before_ms", record.not_before);
  column("placement", attempt.placement);
  column("gpu_uuids", gpu_uuids);
  column("placement_reason", attempt.placement_reason.code);
  column("placement_reason_text", Inside(attempt.placement_reason.text));
  column("promised_cpus", attempt.host.cpus);
  column("promised_host_mib", attempt.host.memory_mib);
  column("own_cores", attempt.host.cores);
  column("stopping", attempt.stopping);
  column("sharing", attempt.sharing.method);
  column("sharing_limit_mib", attempt.sharing.memory_limit_mib);
  column("sharing_threads", attempt.sharing.thread_percent);
  column("sharing_server", attempt.sharing.server);
  column("sharing_note", attempt.sharing.note);
  column("sharing_group_mib", attempt.sharing.group_limit_mib);
  column("sharing_partition", attempt.sharing.partition);
  column("sharing_sms", attempt.sharing.partition_sms);
  column("idle_since_ms", attempt.idle_since);
  column("warned_ms", attempt.warned);
  column("slot_notice_ms", attempt.slot_notice);
  column("notice_cause", attempt.notice_cause);
  column("leaves_by_ms", attempt.leaves_by);
  column("submitted_ms", record.submitted);
  column("queued_since_ms", record.queued_since);
  column("first_start_ms", record.first_start);
  column("launched_ms", attempt.launched);
  column("started_ms", attempt.started);
  column("ended_ms", record.ended);
  column("exit_kind", exit.kind);
  column("exit_code", exit.code);
  column("exit_signal", exit.signal);
  column("exit_detail", exit.detail);
  column("peak_mib", record.peak_mib);
}

// All columns of the row except its id.
void VisitTask(auto& column, auto& task) {
  column("user", task.user);
  column("name", task.name);
  VisitRecord(column, task.record, task.gpu_uuids);
}

// ---- tables in which each row is one value ----

// Visit(column, row) calls `column` for each member of `row`, with the name of the column that
// stores it, or the names if there are several, followed by the member. `row` may be const.
template <class Row>
struct Table;

template <>
struct Table<StoredEvent> {
  static constexpr const char* kName = "event";
  static void Visit(auto& column, auto& event) {
    column("sequence", event.sequence);
    column("when_ms", event.when);
    column("kind", event.kind);
    column("task", event.task);
    column("gpu_uuid", event.gpu_uuid);
    column("what", event.what);
    column("text", event.text);
  }
};

template <>
struct Table<Drain> {
  static constexpr const char* kName = "drain";
  static void Visit(auto& column, auto& drain) {
    column("gpu_uuid", drain.gpu_uuid);
    column("by_rule", drain.by_rule);
    column("why", drain.why);
    column("empty_by_ms", drain.empty_by);
  }
};

// The table has only one row, so it needs no id.
template <>
struct Table<Closing> {
  static constexpr const char* kName = "closing";
  static void Visit(auto& column, auto& closing) {
    column("why", closing.why);
    column("empty_by_ms", closing.empty_by);
    column("machine_start", closing.machine_start);
  }
};

template <>
struct Table<ReservationRow> {
  static constexpr const char* kName = "booking";
  static void Visit(auto& column, auto& booking) {
    column("id", booking.id);
    column("made_by", booking.made_by);
    column("description", booking.description);
  }
};

// SQLite assigns the row numbers of this table and the next two, so they are not listed here.
template <>
struct Table<GpuUsage> {
  static constexpr const char* kName = "gpu_usage";
  static void Visit(auto& column, auto& usage) {
    column("from_ms", usage.from);
    column("to_ms", usage.to);
    column("gpu_uuid", usage.gpu_uuid);
    column("sm_active", usage.sm_active);
    column("used_mib", usage.used_mib);
    column("energy_j", usage.energy_j);
    column("tasks", usage.tasks);
    column("sm_peak", usage.sm_peak);
    column("used_peak_mib", usage.used_peak_mib);
    column("dram_active", usage.dram_active);
  }
};

template <>
struct Table<LineWait> {
  static constexpr const char* kName = "line_wait";
  static void Visit(auto& column, auto& wait) {
    column("from_ms", wait.from);
    column("to_ms", wait.to);
    column("reason", wait.reason);
    column("waited_ms", wait.waited);
  }
};

template <>
struct Table<task::Observation> {
  static constexpr const char* kName = "observation";
  static void Visit(auto& column, auto& observation) {
    column("task", observation.task);
    column("when_ms", observation.when);
    column("uid", observation.uid);
    column("signature", observation.signature);
    column("kin", observation.kin);
    column("relation", observation.relation);
    column("batch", observation.batch);
    column("length", observation.length);
    column("gpu_type", observation.gpu_type);
    column("method", observation.method);
    column("predicted_mib", observation.predicted_mib);
    column("promised_mib", observation.promised_mib);
    column("measured_mib", observation.measured_mib);
    column("allocated_mib", observation.allocated_mib);
    column("ran_out", observation.ran_out);
    column("sm_active", observation.sm_active);
    column("cpus", observation.cpus);
    column("others_share", observation.others_share);
    column("alone_ms", observation.alone);
    column("context_mib", "rest_mib", observation.formula);
  }
};

template <>
struct Table<EndedAttempt> {
  static constexpr const char* kName = "attempt";
  static void Visit(auto& column, auto& attempt) {
    auto& taken = attempt.taken;
    column("task", attempt.task);
    column("number", attempt.number);
    column("uid", taken.uid);
    column("user", taken.user);
    column("account", taken.account);
    column("qos", taken.qos);
    column("gpus", taken.gpus);
    column("rate", taken.rate);
    column("launched_ms", taken.from);
    column("ended_ms", taken.to);
    column("waited_ms", attempt.waited);
    column("started_ms", attempt.started);
    column("promised_mib", attempt.promised_mib);
    column("peak_mib", attempt.peak_mib);
    column("exit_kind", attempt.exit);
    column("gpu_uuids", attempt.gpu_uuids);
  }
};

template <>
struct Table<Notice> {
  static constexpr const char* kName = "notice";
  static void Visit(auto& column, auto& notice) {
    column("id", notice.id);
    column("task", notice.task);
    column("uid", notice.uid);
    column("event", notice.event);
    column("target", notice.target);
    column("message", notice.message);
    column("made_ms", notice.made);
    column("state", notice.state);
    column("tries", notice.tries);
    column("next_ms", notice.next);
    column("text", notice.text);
  }
};

template <>
struct Table<JobReturnRow> {
  static constexpr const char* kName = "job_return";
  static void Visit(auto& column, auto& row) {
    column("task", row.task);
    column("description", row.description);
  }
};

template <>
struct Table<Forecast> {
  static constexpr const char* kName = "forecast";
  static void Visit(auto& column, auto& forecast) {
    column("id", forecast.task);
    column("model", forecast.model);
    column("context_mib", "rest_mib", forecast.formula);
    column("remarks", forecast.remarks);
  }
};

}  // namespace carma::store
