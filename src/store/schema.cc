#include "store/schema.h"

#include <array>

namespace carma::store {
namespace {

// Table task has one short row per task with the values that change. Long values that rarely change
// (environment, script) are in table description. A state change therefore rewrites only a few
// hundred bytes. Each index serves one kind of query of Store::List, Unfinished or Prune. SQLite
// appends the task's id to every index, so pages are ordered by id without sorting.
constexpr std::string_view kVersion20 = R"sql(
CREATE TABLE task (
  id INTEGER PRIMARY KEY,
  state TEXT NOT NULL,
  user TEXT NOT NULL,
  name TEXT NOT NULL,
  uid INTEGER NOT NULL,
  gpus INTEGER NOT NULL,
  memory_mib INTEGER,
  exclusive INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  begin_ms INTEGER,
  dependencies TEXT,
  time_limit_ms INTEGER,
  max_recoveries INTEGER NOT NULL,
  requeue INTEGER NOT NULL,
  submitted_held INTEGER NOT NULL,
  array_id INTEGER,
  array_limit INTEGER NOT NULL,
  queue TEXT NOT NULL,
  held INTEGER NOT NULL,
  reason TEXT NOT NULL,
  reason_text TEXT NOT NULL,
  estimate_mib INTEGER,
  estimate_method TEXT,
  attempt INTEGER NOT NULL,
  ooms INTEGER NOT NULL,
  launch_failures INTEGER NOT NULL,
  node_failures INTEGER NOT NULL,
  retry_free_mib INTEGER,
  retry_on_idle_gpu INTEGER NOT NULL,
  not_before_ms INTEGER,
  placement TEXT,
  gpu_uuids TEXT,
  placement_reason TEXT NOT NULL,
  placement_reason_text TEXT NOT NULL,
  stopping TEXT NOT NULL,
  submitted_ms INTEGER NOT NULL,
  queued_since_ms INTEGER NOT NULL,
  first_start_ms INTEGER,
  launched_ms INTEGER,
  started_ms INTEGER,
  ended_ms INTEGER,
  exit_kind TEXT NOT NULL,
  exit_code INTEGER NOT NULL,
  exit_signal INTEGER NOT NULL,
  exit_detail TEXT NOT NULL,
  peak_mib INTEGER NOT NULL,
  predicted_mib INTEGER,
  sm_share REAL,
  victim_restarts INTEGER NOT NULL DEFAULT 0,
  idle_since_ms INTEGER,
  sharing TEXT NOT NULL DEFAULT '',
  sharing_limit_mib INTEGER NOT NULL DEFAULT 0,
  sharing_threads INTEGER NOT NULL DEFAULT 0,
  sharing_server TEXT NOT NULL DEFAULT '',
  sharing_note TEXT NOT NULL DEFAULT '',
  kind INTEGER NOT NULL DEFAULT 0,
  profile_sm_active REAL,
  profile_sensitivity REAL,
  profile_pressure REAL,
  profile_alone_ms INTEGER,
  account TEXT,
  qos TEXT,
  seen_sm_active REAL,
  seen_alone_ms INTEGER,
  signal_before_ms INTEGER,
  warned_ms INTEGER,
  max_slowdown REAL,
  cpus INTEGER,
  host_memory_mib INTEGER,
  own_cpus INTEGER NOT NULL DEFAULT 0,
  gpu_type TEXT,
  gpu_memory_min_mib INTEGER,
  on_gpus TEXT,
  not_on_gpus TEXT,
  linked_gpus INTEGER NOT NULL DEFAULT 0,
  no_slots INTEGER NOT NULL DEFAULT 0,
  checkpoint_signal TEXT,
  slot_notice_ms INTEGER,
  checkpoints INTEGER NOT NULL DEFAULT 0,
  cut_off INTEGER NOT NULL DEFAULT 0,
  notice_cause TEXT NOT NULL DEFAULT 'none',
  leaves_by_ms INTEGER,
  promised_cpus INTEGER NOT NULL DEFAULT 0,
  promised_host_mib INTEGER NOT NULL DEFAULT 0,
  own_cores TEXT NOT NULL DEFAULT '',
  profile_grain REAL
) STRICT;
CREATE INDEX task_state ON task(state);
CREATE INDEX task_user_state ON task(user, state);
CREATE INDEX task_name ON task(name);
CREATE INDEX task_submitted ON task(submitted_ms);
CREATE INDEX task_ended ON task(ended_ms) WHERE ended_ms IS NOT NULL;

-- Submissions that are being stored in pieces. Tasks with a number in [first, past_last) appear in
-- no answer and no count until the last piece is stored.
CREATE TABLE arrival (
  first INTEGER PRIMARY KEY,
  past_last INTEGER NOT NULL
) STRICT;

-- How many tasks are in each state, kept with every change: counting 100 000 rows takes too long
-- for a loop that is asked every second.
CREATE TABLE state_count (
  state TEXT PRIMARY KEY,
  tasks INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER task_comes AFTER INSERT ON task
WHEN NOT EXISTS (SELECT 1 FROM arrival WHERE first <= new.id AND past_last > new.id) BEGIN
  INSERT INTO state_count VALUES (new.state, 1) ON CONFLICT(state) DO UPDATE SET tasks = tasks + 1;
END;
CREATE TRIGGER task_goes AFTER DELETE ON task
WHEN NOT EXISTS (SELECT 1 FROM arrival WHERE first <= old.id AND past_last > old.id) BEGIN
  UPDATE state_count SET tasks = tasks - 1 WHERE state = old.state;
END;
CREATE TRIGGER task_steps AFTER UPDATE OF state ON task WHEN new.state <> old.state BEGIN
  UPDATE state_count SET tasks = tasks - 1 WHERE state = old.state;
  INSERT INTO state_count VALUES (new.state, 1) ON CONFLICT(state) DO UPDATE SET tasks = tasks + 1;
END;

-- Texts that descriptions are kept as differences from (delta.h).
CREATE TABLE template (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;

-- template NULL: spec is the text itself.
CREATE TABLE description (
  id INTEGER PRIMARY KEY REFERENCES task(id) ON DELETE CASCADE,
  gid INTEGER NOT NULL,
  template INTEGER,
  spec TEXT NOT NULL,
  stdout_path TEXT NOT NULL,
  stderr_path TEXT NOT NULL
) STRICT;

CREATE TABLE event (
  sequence INTEGER PRIMARY KEY,
  when_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  task INTEGER,
  gpu_uuid TEXT NOT NULL,
  what TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX event_task ON event(task) WHERE task IS NOT NULL;

CREATE TABLE gpu_usage (
  id INTEGER PRIMARY KEY,
  from_ms INTEGER NOT NULL,
  to_ms INTEGER NOT NULL,
  gpu_uuid TEXT NOT NULL,
  sm_active REAL,
  used_mib REAL NOT NULL,
  energy_j REAL,
  tasks INTEGER NOT NULL,
  sm_peak REAL,
  used_peak_mib REAL,
  dram_active REAL
) STRICT;
CREATE INDEX gpu_usage_to ON gpu_usage(to_ms);

CREATE TABLE drain (
  gpu_uuid TEXT NOT NULL,
  by_rule INTEGER NOT NULL,
  why TEXT NOT NULL,
  empty_by_ms INTEGER,
  PRIMARY KEY (gpu_uuid, by_rule)
) STRICT, WITHOUT ROWID;

-- Highest numbers ever given: they outlive the rows, so that nothing is numbered twice.
CREATE TABLE counter (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES ('task', 0), ('event', 0);

-- Details of an estimate beyond the task's row; most tasks have no forecast.
CREATE TABLE forecast (
  id INTEGER PRIMARY KEY REFERENCES task(id) ON DELETE CASCADE,
  model TEXT NOT NULL,
  context_mib INTEGER,
  rest_mib INTEGER,
  remarks TEXT
) STRICT;

-- Measured peaks. They outlive their tasks and are bounded by Store::AddObservation; they are read
-- once, at the start.
CREATE TABLE observation (
  id INTEGER PRIMARY KEY,
  task INTEGER NOT NULL,
  when_ms INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  signature TEXT NOT NULL,
  kin TEXT NOT NULL,
  gpu_type TEXT NOT NULL,
  method TEXT NOT NULL,
  predicted_mib INTEGER,
  promised_mib INTEGER,
  measured_mib INTEGER NOT NULL,
  ran_out INTEGER NOT NULL,
  context_mib INTEGER,
  rest_mib INTEGER,
  sm_active REAL,
  alone_ms INTEGER,
  relation TEXT NOT NULL DEFAULT '',
  batch INTEGER,
  length INTEGER,
  allocated_mib INTEGER
) STRICT;
CREATE INDEX observation_signature ON observation(signature);

-- Submissions that were named by their senders. Rows are kept for a day.
CREATE TABLE request (
  uid INTEGER NOT NULL,
  request TEXT NOT NULL,
  first INTEGER NOT NULL,
  tasks INTEGER NOT NULL,
  when_ms INTEGER NOT NULL,
  PRIMARY KEY (uid, request)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_when ON request(when_ms);

-- The usage of each ended attempt. Rows outlive their tasks.
CREATE TABLE attempt (
  task INTEGER NOT NULL,
  number INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  user TEXT NOT NULL,
  account TEXT NOT NULL,
  qos TEXT NOT NULL,
  gpus INTEGER NOT NULL,
  rate REAL NOT NULL,
  launched_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  waited_ms INTEGER NOT NULL,
  started_ms INTEGER,
  promised_mib INTEGER NOT NULL,
  peak_mib INTEGER NOT NULL,
  exit_kind TEXT,
  gpu_uuids TEXT,
  PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_ended ON attempt(ended_ms);

-- Who is notified of tasks, and whether that was done.
CREATE TABLE notice (
  id INTEGER PRIMARY KEY,
  task INTEGER,
  uid INTEGER NOT NULL,
  event TEXT NOT NULL,
  target TEXT NOT NULL,
  message TEXT NOT NULL,
  made_ms INTEGER NOT NULL,
  state TEXT NOT NULL,
  tries INTEGER NOT NULL,
  next_ms INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX notice_waiting ON notice(next_ms) WHERE state = 'waiting';
CREATE INDEX notice_task ON notice(task) WHERE task IS NOT NULL;
CREATE INDEX notice_made ON notice(made_ms);

-- Reservations of GPUs. A removed reservation keeps its row without description, so that its
-- number is not reused.
CREATE TABLE booking (
  id INTEGER PRIMARY KEY,
  made_by TEXT NOT NULL,
  description TEXT
) STRICT;

-- Slurm jobs that are being requeued. Each row exists until the requeue is done.
CREATE TABLE job_return (
  task INTEGER PRIMARY KEY,
  description TEXT NOT NULL
) STRICT;

-- What the first task of the queue waited for, minute by minute.
CREATE TABLE line_wait (
  id INTEGER PRIMARY KEY,
  from_ms INTEGER NOT NULL,
  to_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  waited_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX line_wait_to ON line_wait(to_ms);

-- A planned shutdown of the machine; at most one row.
CREATE TABLE closing (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  why TEXT NOT NULL,
  empty_by_ms INTEGER NOT NULL,
  machine_start TEXT NOT NULL
) STRICT;
)sql";

// The identities of this database. A copy of a database would assign the same task numbers as the
// original, so a copy that is put into use gets a new identity for its new tasks. Task numbers are
// unique within one identity. from_task: the first task number of this identity. id: NULL until the
// database is next opened. named: whether the names of the tasks' files contain the id.
constexpr std::string_view kVersion21 = R"sql(
CREATE TABLE books (
  from_task INTEGER PRIMARY KEY,
  id TEXT,
  named INTEGER NOT NULL
) STRICT;
INSERT INTO books SELECT 1, NULL, 0 FROM counter WHERE name='task' AND value > 0;
INSERT INTO books SELECT value + 1, NULL, 1 FROM counter WHERE name='task';
)sql";

// Adds the GPU memory that the kernel allows a task to use.
constexpr std::string_view kVersion22 = R"sql(
ALTER TABLE task ADD COLUMN sharing_group_mib INTEGER NOT NULL DEFAULT 0;
)sql";

// Adds the number of CPU cores that a task keeps busy.
constexpr std::string_view kVersion23 = R"sql(
ALTER TABLE task ADD COLUMN profile_cpus REAL;
ALTER TABLE observation ADD COLUMN cpus REAL;
)sql";

// Adds the SM partition of an MPS client.
constexpr std::string_view kVersion24 = R"sql(
ALTER TABLE task ADD COLUMN sharing_partition TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN sharing_sms INTEGER NOT NULL DEFAULT 0;
)sql";

// Adds a task's memory share on GPUs other than its first.
constexpr std::string_view kVersion25 = R"sql(
ALTER TABLE task ADD COLUMN profile_others_share REAL;
ALTER TABLE observation ADD COLUMN others_share REAL;
)sql";

constexpr std::array kMigrations{
    Migration{20, kVersion20}, Migration{21, kVersion21}, Migration{22, kVersion22},
    Migration{23, kVersion23}, Migration{24, kVersion24}, Migration{25, kVersion25},
};

}  // namespace

std::span<const Migration> Migrations() {
  return kMigrations;
}

int SchemaVersion() {
  return kMigrations.back().version;
}

}  // namespace carma::store
