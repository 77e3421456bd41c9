#include "store/schema.h"

#include <array>

namespace carma::store {
namespace {

// Table task has one short row per task with the part that changes. Long parts that never change
// after submission (environment, script) are in table description, so a change of state rewrites
// only a few hundred bytes. Each index serves one kind of query of Store::List, Unfinished or
// Prune; the task's id ends every index by itself, so pages come in id order without sorting.
constexpr std::string_view kVersion1 = R"sql(
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
  peak_mib INTEGER NOT NULL
) STRICT;
CREATE INDEX task_state ON task(state);
CREATE INDEX task_user_state ON task(user, state);
CREATE INDEX task_name ON task(name);
CREATE INDEX task_submitted ON task(submitted_ms);
CREATE INDEX task_ended ON task(ended_ms) WHERE ended_ms IS NOT NULL;

-- How many tasks are in each state, kept with every change: counting 100 000 rows takes too long
-- for a loop that is asked every second.
CREATE TABLE state_count (
  state TEXT PRIMARY KEY,
  tasks INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER task_comes AFTER INSERT ON task BEGIN
  INSERT INTO state_count VALUES (new.state, 1) ON CONFLICT(state) DO UPDATE SET tasks = tasks + 1;
END;
CREATE TRIGGER task_goes AFTER DELETE ON task BEGIN
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
  tasks INTEGER NOT NULL
) STRICT;
CREATE INDEX gpu_usage_to ON gpu_usage(to_ms);

CREATE TABLE drain (
  gpu_uuid TEXT PRIMARY KEY,
  why TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Highest numbers ever given: they outlive the rows, so that nothing is numbered twice.
CREATE TABLE counter (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES ('task', 0), ('event', 0);
)sql";

// Table forecast has details of an estimate beyond the task's row; most tasks have no forecast.
// Table observation outlives its tasks and is bounded by Store::AddObservation; its rows are read
// once, at the start.
constexpr std::string_view kVersion2 = R"sql(
ALTER TABLE task ADD COLUMN predicted_mib INTEGER;

CREATE TABLE forecast (
  id INTEGER PRIMARY KEY REFERENCES task(id) ON DELETE CASCADE,
  model TEXT NOT NULL,
  context_mib INTEGER,
  rest_mib INTEGER,
  remarks TEXT
) STRICT;

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
  rest_mib INTEGER
) STRICT;
CREATE INDEX observation_signature ON observation(signature);
)sql";

// How an attempt shares its GPUs, and columns about health and idleness in tasks, drains and usage.
constexpr std::string_view kVersion3 = R"sql(
ALTER TABLE task ADD COLUMN sm_share REAL;
ALTER TABLE task ADD COLUMN victim_restarts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN idle_since_ms INTEGER;
ALTER TABLE task ADD COLUMN sharing TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN sharing_limit_mib INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN sharing_threads INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN sharing_server TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN sharing_note TEXT NOT NULL DEFAULT '';

ALTER TABLE gpu_usage ADD COLUMN sm_peak REAL;
ALTER TABLE gpu_usage ADD COLUMN used_peak_mib REAL;
ALTER TABLE gpu_usage ADD COLUMN dram_active REAL;

CREATE TABLE drain_of_two (
  gpu_uuid TEXT NOT NULL,
  by_rule INTEGER NOT NULL,
  why TEXT NOT NULL,
  PRIMARY KEY (gpu_uuid, by_rule)
) STRICT, WITHOUT ROWID;
INSERT INTO drain_of_two SELECT gpu_uuid, 0, why FROM drain;
DROP TABLE drain;
ALTER TABLE drain_of_two RENAME TO drain;
)sql";

// Submissions that were named by their senders. Rows are kept for a day.
constexpr std::string_view kVersion4 = R"sql(
CREATE TABLE request (
  uid INTEGER NOT NULL,
  request TEXT NOT NULL,
  first INTEGER NOT NULL,
  tasks INTEGER NOT NULL,
  when_ms INTEGER NOT NULL,
  PRIMARY KEY (uid, request)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_when ON request(when_ms);
)sql";

// Submissions that are being stored in pieces. Tasks with a number in [first, past_last) appear in
// no answer and no count until the last piece is stored.
constexpr std::string_view kVersion5 = R"sql(
CREATE TABLE arrival (
  first INTEGER PRIMARY KEY,
  past_last INTEGER NOT NULL
) STRICT;
DROP TRIGGER task_comes;
CREATE TRIGGER task_comes AFTER INSERT ON task
WHEN NOT EXISTS (SELECT 1 FROM arrival WHERE first <= new.id AND past_last > new.id) BEGIN
  INSERT INTO state_count VALUES (new.state, 1) ON CONFLICT(state) DO UPDATE SET tasks = tasks + 1;
END;
DROP TRIGGER task_goes;
CREATE TRIGGER task_goes AFTER DELETE ON task
WHEN NOT EXISTS (SELECT 1 FROM arrival WHERE first <= old.id AND past_last > old.id) BEGIN
  UPDATE state_count SET tasks = tasks - 1 WHERE state = old.state;
END;
)sql";

// The identity of a task's program, by which a restarted daemon finds tasks that may learn from
// each other.
constexpr std::string_view kVersion6 = R"sql(
ALTER TABLE task ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;
)sql";

// How and for how long tasks use a GPU, predicted and measured.
constexpr std::string_view kVersion7 = R"sql(
ALTER TABLE task ADD COLUMN profile_sm_active REAL;
ALTER TABLE task ADD COLUMN profile_sensitivity REAL;
ALTER TABLE task ADD COLUMN profile_pressure REAL;
ALTER TABLE task ADD COLUMN profile_alone_ms INTEGER;
ALTER TABLE observation ADD COLUMN sm_active REAL;
ALTER TABLE observation ADD COLUMN alone_ms INTEGER;
)sql";

// The account of each task, and the usage of each ended attempt, whose rows outlive their tasks.
constexpr std::string_view kVersion8 = R"sql(
ALTER TABLE task ADD COLUMN account TEXT;
ALTER TABLE task ADD COLUMN qos TEXT;

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
)sql";

// Measurements of a task's last attempt, which reports compare with the prediction.
constexpr std::string_view kVersion9 = R"sql(
ALTER TABLE task ADD COLUMN seen_sm_active REAL;
ALTER TABLE task ADD COLUMN seen_alone_ms INTEGER;
)sql";

// When a task was warned of its time limit, and notifications with their results.
constexpr std::string_view kVersion10 = R"sql(
ALTER TABLE task ADD COLUMN signal_before_ms INTEGER;
ALTER TABLE task ADD COLUMN warned_ms INTEGER;

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
)sql";

// How much a task may be slowed down by its neighbours.
constexpr std::string_view kVersion11 = R"sql(
ALTER TABLE task ADD COLUMN max_slowdown REAL;
)sql";

// How a run compares with similar runs, and what PyTorch reported about its memory.
constexpr std::string_view kVersion12 = R"sql(
ALTER TABLE observation ADD COLUMN relation TEXT NOT NULL DEFAULT '';
ALTER TABLE observation ADD COLUMN batch INTEGER;
ALTER TABLE observation ADD COLUMN length INTEGER;
ALTER TABLE observation ADD COLUMN allocated_mib INTEGER;
)sql";

// A task's request for resources other than GPUs, the GPUs it may use, and how it pauses for
// others.
constexpr std::string_view kVersion13 = R"sql(
ALTER TABLE task ADD COLUMN cpus INTEGER;
ALTER TABLE task ADD COLUMN host_memory_mib INTEGER;
ALTER TABLE task ADD COLUMN own_cpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN gpu_type TEXT;
ALTER TABLE task ADD COLUMN gpu_memory_min_mib INTEGER;
ALTER TABLE task ADD COLUMN on_gpus TEXT;
ALTER TABLE task ADD COLUMN not_on_gpus TEXT;
ALTER TABLE task ADD COLUMN linked_gpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN no_slots INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN checkpoint_signal TEXT;
ALTER TABLE task ADD COLUMN slot_notice_ms INTEGER;
ALTER TABLE task ADD COLUMN checkpoints INTEGER NOT NULL DEFAULT 0;
)sql";

// Why and by when a task has to leave its GPUs, and when a drained GPU must be empty.
constexpr std::string_view kVersion14 = R"sql(
ALTER TABLE task ADD COLUMN cut_off INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN notice_cause TEXT NOT NULL DEFAULT 'none';
ALTER TABLE task ADD COLUMN leaves_by_ms INTEGER;
ALTER TABLE drain ADD COLUMN empty_by_ms INTEGER;
)sql";

// Resources other than GPUs that are promised to a task's attempt.
constexpr std::string_view kVersion15 = R"sql(
ALTER TABLE task ADD COLUMN promised_cpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN promised_host_mib INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN own_cores TEXT NOT NULL DEFAULT '';
)sql";

// Reservations of GPUs. A removed reservation keeps its row without description, so that its number
// is not reused.
constexpr std::string_view kVersion16 = R"sql(
CREATE TABLE booking (
  id INTEGER PRIMARY KEY,
  made_by TEXT NOT NULL,
  description TEXT
) STRICT;
)sql";

// Slurm jobs that are being requeued. Each row exists until the requeue is done.
constexpr std::string_view kVersion17 = R"sql(
CREATE TABLE job_return (
  task INTEGER PRIMARY KEY,
  description TEXT NOT NULL
) STRICT;
)sql";

// What the first task of the queue waited for, minute by minute.
constexpr std::string_view kVersion18 = R"sql(
CREATE TABLE line_wait (
  id INTEGER PRIMARY KEY,
  from_ms INTEGER NOT NULL,
  to_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  waited_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX line_wait_to ON line_wait(to_ms);
)sql";

// A planned shutdown of the machine; at most one row.
constexpr std::string_view kVersion19 = R"sql(
CREATE TABLE closing (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  why TEXT NOT NULL,
  empty_by_ms INTEGER NOT NULL,
  machine_start TEXT NOT NULL
) STRICT;
)sql";

// The grain of a task's profile, which is the size of its kernels.
constexpr std::string_view kVersion20 = R"sql(
ALTER TABLE task ADD COLUMN profile_grain REAL;
)sql";

// The identity of this database, within which task numbers are unique. Each row applies from a task
// number on, because a copy that is put into use assigns the same numbers again and so is a
// different database from that number on. id: if NULL, chosen at the next opening; named: files of
// these tasks have the id in their names.
constexpr std::string_view kVersion21 = R"sql(
CREATE TABLE books (
  from_task INTEGER PRIMARY KEY,
  id TEXT,
  named INTEGER NOT NULL
) STRICT;
INSERT INTO books SELECT 1, NULL, 0 FROM counter WHERE name='task' AND value > 0;
INSERT INTO books SELECT value + 1, NULL, 1 FROM counter WHERE name='task';
)sql";

// The GPU memory that the kernel allows a task.
constexpr std::string_view kVersion22 = R"sql(
ALTER TABLE task ADD COLUMN sharing_group_mib INTEGER NOT NULL DEFAULT 0;
)sql";

// The cores that a task keeps busy.
constexpr std::string_view kVersion23 = R"sql(
ALTER TABLE task ADD COLUMN profile_cpus REAL;
ALTER TABLE observation ADD COLUMN cpus REAL;
)sql";

// The SM partition of an MPS client.
constexpr std::string_view kVersion24 = R"sql(
ALTER TABLE task ADD COLUMN sharing_partition TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN sharing_sms INTEGER NOT NULL DEFAULT 0;
)sql";

// The memory share of a task on its GPUs other than the first.
constexpr std::string_view kVersion25 = R"sql(
ALTER TABLE task ADD COLUMN profile_others_share REAL;
ALTER TABLE observation ADD COLUMN others_share REAL;
)sql";

constexpr std::array kMigrations{
    Migration{1, kVersion1},   Migration{2, kVersion2},   Migration{3, kVersion3},
    Migration{4, kVersion4},   Migration{5, kVersion5},   Migration{6, kVersion6},
    Migration{7, kVersion7},   Migration{8, kVersion8},   Migration{9, kVersion9},
    Migration{10, kVersion10}, Migration{11, kVersion11}, Migration{12, kVersion12},
    Migration{13, kVersion13}, Migration{14, kVersion14}, Migration{15, kVersion15},
    Migration{16, kVersion16}, Migration{17, kVersion17}, Migration{18, kVersion18},
    Migration{19, kVersion19}, Migration{20, kVersion20}, Migration{21, kVersion21},
    Migration{22, kVersion22}, Migration{23, kVersion23}, Migration{24, kVersion24},
    Migration{25, kVersion25},
};

}  // namespace

std::span<const Migration> Migrations() {
  return kMigrations;
}

int SchemaVersion() {
  return kMigrations.back().version;
}

}  // namespace carma::store
