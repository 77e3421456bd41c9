// How a task becomes the columns of table `task` and back. One list of the columns serves the names
// in the SQL, binding and reading, so that none can be forgotten in one of them.
#pragma once

#include <SQLiteCpp/Statement.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/copy_on_write.h"
#include "base/fields.h"
#include "base/result.h"
#include "base/words.h"
#include "store/store.h"

namespace carma::store {

// The fields of a request under the names that the API has for them, but for three.
template <class Visitor>
class RequestColumns {
 public:
  explicit RequestColumns(Visitor& column) : column_(&column) {}
  template <class Value>
  void operator()(const char* name, Value& value, const char* = "", const base::FieldRule& = {}) {
    const std::string_view field = name;
    (*column_)(field == "time_limit_s"      ? "time_limit_ms"
               : field == "signal_before_s" ? "signal_before_ms"
               : field == "held"            ? "submitted_held"  // `held` is whether it is held now
                                            : name,
               value);
  }

 private:
  Visitor* column_;
};

// What a visitor sees of a value that may be shared: what is to be read anew is its holder's own.
template <class T>
const T& Inside(const base::CopyOnWrite<T>& value) {
  return *value;
}
template <class T>
T& Inside(base::CopyOnWrite<T>& value) {
  return value.Edit();
}

// Columns that PutRecord may change. Record is core::TaskRecord, const or not.
template <class Visitor, class Record, class Uuids>
void VisitRecord(Visitor& column, Record& record, Uuids& gpu_uuids) {
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

// A row of table event.
template <class Visitor, class Event>
void VisitEvent(Visitor& column, Event& event) {
  column("sequence", event.sequence);
  column("when_ms", event.when);
  column("kind", event.kind);
  column("task", event.task);
  column("gpu_uuid", event.gpu_uuid);
  column("what", event.what);
  column("text", event.text);
}

// A row of table drain.
template <class Visitor, class DrainRow>
void VisitDrain(Visitor& column, DrainRow& drain) {
  column("gpu_uuid", drain.gpu_uuid);
  column("by_rule", drain.by_rule);
  column("why", drain.why);
  column("empty_by_ms", drain.empty_by);
}

// A row of table closing, but for its number.
template <class Visitor, class ClosingRow>
void VisitClosing(Visitor& column, ClosingRow& closing) {
  column("why", closing.why);
  column("empty_by_ms", closing.empty_by);
  column("machine_start", closing.machine_start);
}

// A row of table booking.
template <class Visitor, class Booking>
void VisitBooking(Visitor& column, Booking& booking) {
  column("id", booking.id);
  column("made_by", booking.made_by);
  column("description", booking.description);
}

// A row of table gpu_usage but its id.
template <class Visitor, class Usage>
void VisitUsage(Visitor& column, Usage& usage) {
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

// A row of table line_wait but its id.
template <class Visitor, class Wait>
void VisitLineWait(Visitor& column, Wait& wait) {
  column("from_ms", wait.from);
  column("to_ms", wait.to);
  column("reason", wait.reason);
  column("waited_ms", wait.waited);
}

// A row of table observation but its id.
template <class Visitor, class Observation>
void VisitObservation(Visitor& column, Observation& observation) {
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
  column("alone_ms", observation.alone);
  column("context_mib", "rest_mib", observation.formula);
}

// A row of table attempt.
template <class Visitor, class Attempt>
void VisitAttempt(Visitor& column, Attempt& attempt) {
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

// A row of table notice.
template <class Visitor, class Notice>
void VisitNotice(Visitor& column, Notice& notice) {
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

// The whole row but its id.
template <class Visitor, class Task>
void VisitTask(Visitor& column, Task& task) {
  column("user", task.user);
  column("name", task.name);
  VisitRecord(column, task.record, task.gpu_uuids);
}

class ColumnNames {
 public:
  template <class Value>
  void operator()(const char* name, const Value&) {
    names.emplace_back(name);
  }
  void operator()(const char* mib, const char* method, const char* predicted,
                  const std::optional<core::Estimate>&) {
    names.insert(names.end(), {mib, method, predicted});
  }
  void operator()(const char* context, const char* rest, const std::optional<task::FormulaSplit>&) {
    names.insert(names.end(), {context, rest});
  }
  void operator()(const char* sensitivity, const char* pressure,
                  const std::optional<core::MpsParameters>&) {
    names.insert(names.end(), {sensitivity, pressure});
  }
  std::vector<std::string> names;
};

// Names of the columns of table gpu_usage, "from_ms,to_ms,…"; likewise of others.
std::string UsageColumns();
std::string LineWaitColumns();
// The same of table attempt.
std::string AttemptColumns();

// Binds values to the parameters of a statement, one after another.
class Binder {
 public:
  explicit Binder(SQLite::Statement& statement, int first = 1)
      : statement_(&statement), next_(first) {}

  template <class Value>
  void operator()(const char*, const Value& value) {
    Bind(value);
  }
  void operator()(const char*, const char*, const char*,
                  const std::optional<core::Estimate>& value);
  void operator()(const char*, const char*, const std::optional<task::FormulaSplit>& value);
  void operator()(const char*, const char*, const std::optional<core::MpsParameters>& value);

  void Bind(std::int64_t value);
  void Bind(int value) { Bind(static_cast<std::int64_t>(value)); }
  void Bind(std::uint32_t value) { Bind(static_cast<std::int64_t>(value)); }
  void Bind(bool value) { Bind(static_cast<std::int64_t>(value)); }
  void Bind(double value);  // NaN becomes NULL
  void Bind(const std::string& value);
  void Bind(core::TaskId value) { Bind(static_cast<std::int64_t>(core::Number(value))); }
  void Bind(core::KindId value) { Bind(static_cast<std::int64_t>(core::Number(value))); }
  void Bind(core::BookingId value) { Bind(static_cast<std::int64_t>(core::Number(value))); }
  void Bind(core::Time value) { Bind(base::ToMs(value)); }
  void Bind(core::Duration value) { Bind(static_cast<std::int64_t>(value.count())); }
  // By its word: a file stays readable, and reordering an enum changes nothing.
  template <base::HasWords Enum>
  void Bind(Enum value) {
    BindWord(base::WordOf(value));
  }
  void Bind(const std::vector<core::Dependency>& value);
  void Bind(const std::vector<core::Placement>& value);
  void Bind(const std::vector<std::string>& value);
  template <class Value>
  void Bind(const std::optional<Value>& value) {
    if (value) {
      Bind(*value);
    } else {
      BindNull();
    }
  }
  void Bind(const std::optional<std::uint64_t>& value);

 private:
  void BindNull();
  void BindWord(std::string_view word);

  SQLite::Statement* statement_;
  int next_;
};

// Reads the columns of the current row, one after another. What cannot have been written by us is
// noted; check problem() at the end.
class Reader {
 public:
  explicit Reader(SQLite::Statement& statement) : statement_(&statement) {}

  template <class Value>
  void operator()(const char* name, Value& value) {
    name_ = name;
    Read(value);
  }
  void operator()(const char* mib, const char* method, const char* predicted,
                  std::optional<core::Estimate>& value);
  void operator()(const char* context, const char* rest, std::optional<task::FormulaSplit>& value);
  void operator()(const char* sensitivity, const char* pressure,
                  std::optional<core::MpsParameters>& value);

  void Read(std::int64_t& value);
  void Read(int& value);
  void Read(std::uint32_t& value);
  void Read(bool& value);
  void Read(double& value);  // NULL becomes NaN
  void Read(std::string& value);
  void Read(core::TaskId& value);
  void Read(core::KindId& value);
  void Read(core::BookingId& value);
  void Read(core::Time& value);
  void Read(core::Duration& value);
  template <base::HasWords Enum>
  void Read(Enum& value) {
    const std::optional<Enum> meant = base::FromWord<Enum>(Text());
    if (!meant) return Complain("a known word");
    value = *meant;
  }
  void Read(std::vector<core::Dependency>& value);
  void Read(std::vector<core::Placement>& value);
  void Read(std::vector<std::string>& value);
  template <class Value>
  void Read(std::optional<Value>& value) {
    if (AtNull()) {
      ++next_;
      value.reset();
    } else {
      Read(value.emplace());
    }
  }
  void Read(std::optional<std::uint64_t>& value);

  // Column and what was expected; empty: all is well.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  bool AtNull();
  std::int64_t Integer(std::int64_t low, std::int64_t high);
  std::string Text();
  void Complain(std::string_view expected);

  SQLite::Statement* statement_;
  int next_ = 0;
  const char* name_ = "id";
  std::optional<std::string> problem_;
};

}  // namespace carma::store
