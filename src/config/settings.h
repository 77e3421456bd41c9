// Loads and validates the daemon's configuration, and records the origin of each value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/policy/policy.h"
#include "core/values/pace.h"
#include "gpu/health.h"
#include "gpu/reader/load_probe.h"
#include "task/mps/mps.h"

namespace carma::config {

// The method's name in collocation.method: "streams", "mps", or "exclusive" (kAlone).
std::string_view CollocationName(core::SharingMethod method);

// A policy.mapper value that selects a mapper by sharing method: by-work where it pays off, else
// magm.
inline constexpr std::string_view kAutoMapper = "auto";

struct Settings;
// Returns the policy for a sharing method, with the mapper's defaults for keys that are not set.
// With streams, where tasks take turns, streams_sm_cap and streams_tasks apply. Never changes the
// rules of the published systems.
core::PolicyConfig PolicyFor(const Settings& settings, core::SharingMethod method);

struct Settings {
  // [daemon] Default /run/carma/carmad.sock; rootless: $XDG_RUNTIME_DIR/carma/carmad.sock.
  std::string socket;
  std::string state_dir;  // default /var/lib/carma, rootless $XDG_STATE_HOME/carma
  unsigned socket_mode = 0666;
  std::string socket_group;  // the daemon's own group if empty
  // Users who may do more than read. Root, the daemon's own user and admins always may. If both
  // lists are empty, everyone may.
  std::vector<std::string> allow_users;
  std::vector<std::string> allow_groups;
  int keep_finished_days = 90;
  std::string log_level = "info";
  std::optional<int> http_port;                 // port of the read-only pages on loopback
  std::vector<std::string> reservation_makers;  // who may reserve GPUs, in addition to admins
  std::vector<std::string> admins;  // user names, in addition to root and the daemon's own
  std::vector<std::string> gpus;    // only these GPUs (gpu/own_devices.h); all if empty
  // [policy], [recovery]: core::PolicyConfig. "published" = "thesis" | "v2" replaces these rules
  // with those of the published system.
  std::optional<std::string> published;
  std::string mapper{kAutoMapper};  // as configured; `policy` has the mapper in force
  core::PolicyConfig policy;
  // [collocation] Empty means "auto": MPS if NVIDIA's control daemon responds, else streams.
  std::optional<core::SharingMethod> collocation;
  std::string without_mps;     // why "auto" chose streams; not a key
  bool kernel_limits = false;  // the kernel limits GPU memory; set by the daemon, not a key
  std::string without_limits;  // why there are no kernel limits; not a key
  task::MpsScope mps_servers = task::MpsScope::kUser;
  bool sm_partitions = false;  // --sm-share reserves SMs; only with a server per GPU
  int mps_clients = 48;        // maximum number of clients per MPS server
  std::string mps_control = "nvidia-cuda-mps-control";  // in $PATH, or an absolute path
  // Folder for MPS pipes and logs. The default is /run/carma/mps, or $XDG_RUNTIME_DIR/carma/mps for
  // a rootless daemon.
  std::string mps_dir;
  base::Duration mps_timeout{10'000};  // real time to wait for an MPS control daemon
  bool mps_memory_limit = true;        // limit processes to their task's promise and margin
  // [monitor]
  gpu::ActivitySource activity_source = gpu::ActivitySource::kAuto;  // "auto", "nvml", "dcgm"
  base::Duration sample_period{1'000};
  base::Duration window{60'000};
  base::Duration ewma{15'000};  // time constant of the weighted mean of SM activity
  base::Duration history{base::Duration{900'000}};  // how long individual readings are kept
  std::int64_t unattributed_mib = 2048;             // alert if more than this is unattributed
  base::Duration probe_timeout{10'000};             // real time; a slower probe counts as hung
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string kernel_log = "/dev/kmsg";  // not read if empty
  // Relative to an A100-40GB. Overrides the built-in speeds.
  std::vector<core::TypeSpeed> gpu_speeds;
  // [health]
  gpu::HealthRules health;
  // [idle]; policy.idle_action
  std::optional<base::Duration> idle_after{1'800'000};  // empty disables detecting idle holders
  double idle_below = 0.01;                             // SM activity that counts as idle, 0..1
  // [notify]
  bool notify_enabled = true;
  std::vector<std::string> notify_allow = {"mail", "webhook", "program"};  // task::NotifyKind
  std::int64_t notify_per_hour = 100;                                      // limit per user
  std::string notify_sendmail = "/usr/sbin/sendmail";
  base::Duration notify_time_limit{30'000};  // real time, per attempt
  // Where to send notices about idle tasks that hold GPUs and about failing GPUs, in the format of
  // task::ParseNotifyTarget.
  std::vector<std::string> notify_admin;
  // [slurm]
  bool slurm_enabled = false;  // requeue jobs that ran out of GPU memory
  int slurm_retries = 3;       // limit per job
  std::string slurm_scontrol = "/usr/bin/scontrol";
  std::string slurm_squeue = "/usr/bin/squeue";
  // [task]
  base::Duration kill_grace{30'000};
  std::int64_t max_output_mib = 1024;  // size at which a file is rotated; 0 means never
  int output_rotations = 1;
  std::optional<base::Duration> default_time_limit;
  std::int64_t max_processes = 32'768;  // processes and threads per task; 0 means no limit
  std::size_t max_queued_tasks = 1'000'000;
  std::size_t max_queued_per_user = 500'000;
  std::size_t max_batch = 200'000;  // tasks per submission
  bool cgroups = true;              // one cgroup v2 per task where possible
  // [host]; policy.cpus_per_gpu, policy.host_memory_per_gpu_mib
  std::optional<int> host_cpus;  // cores for tasks; the machine's minus a reserve if empty
  std::optional<std::int64_t> host_memory_mib;  // see host_cpus
  bool cpu_cap = false;  // a hard limit on CPU time; otherwise idle cores are shared
  // [estimate]
  std::string estimate_method = "auto";  // an estimator from estimate/estimator.h
  double estimate_coverage =
      0.90;  // share of runs within their promise; 0 promises the likeliest value
  base::Duration estimate_time_limit{10'000};  // real time, per estimate
  bool estimate_history = true;                // learn from finished tasks
  bool estimate_prefer_given = true;           // the user's request takes precedence
  std::string estimate_profiles;               // file written by `carma profile`; may be empty
  // [simulation]
  std::string simgpu_state;  // state file of a simulated server; empty for real GPUs
  // Names of the keys that were set in a file, in the environment or by a flag.
  std::set<std::string, std::less<>> chosen;
  bool divided = false;  // all GPUs are MIG instances; set by the daemon, not a key
};

struct Origin {
  std::string value;  // the value in force, in file notation
  // Where the value was set: "default", "/etc/carma/carma.toml:12", "CARMA_POLICY_MAPPER" or
  // "--socket". A value that was set by policy.published or collocation.method has an origin such
  // as "policy.published (/etc/carma/carma.toml:3)".
  std::string where;
};

struct Loaded {
  Settings settings;
  std::map<std::string, Origin> origins;  // for every known key, by dotted name
};

struct Sources {
  // Files in order; later files win. A missing file is an error (kNotFound) unless it is optional.
  std::vector<std::pair<std::string, bool>> files;  // path, optional
  // CARMA_SECTION_KEY=value, and HOME, XDG_RUNTIME_DIR and XDG_STATE_HOME for the default paths.
  // Every task has other CARMA_* variables in its environment; these are ignored unless they
  // resemble a key.
  std::map<std::string, std::string> environment;
  std::vector<std::pair<std::string, std::string>> overrides;  // dotted name, value; from flags
  bool root = false;                                           // selects the default paths
};

// The socket of a daemon that serves only its own user. runtime_dir: $XDG_RUNTIME_DIR; may be
// empty.
std::string OwnSocketPath(const std::string& runtime_dir);

// Returns the standard sources in order: defaults, /etc/carma/carma.toml,
// /etc/carma/carma.d/*.toml, the user's $XDG_CONFIG_HOME/carma/config.toml if the daemon is
// rootless, and CARMA_*. `file` (from --config) replaces all of these files.
Sources StandardSources(const std::optional<std::string>& file, bool root);

// Returns kInvalid "path:line: section.key: expected …" for syntax errors, unknown keys, wrong
// types, values out of range, and contradictory keys, or kNotFound for a missing file.
Result<Loaded> Load(const Sources& sources);
// True if the default of this key depends on the mapper.
bool FollowsMapper(std::string_view key);

// The result of rereading the configuration while the daemon is running.
struct Reread {
  Loaded loaded;  // the configuration to use from now on
  // Keys with new values, in table order. Those in `changed` are already in force; those in
  // `need_restart` take effect after a restart.
  std::vector<std::string> changed;
  std::vector<std::string> need_restart;
};
// Loads the configuration again, and keeps the old values of keys that need a restart.
// policy.mapper needs a restart if the change turns sharing on or off. running: the daemon's
// current settings, as loaded. Returns kInvalid if a new value conflicts with an old one
// that is kept. Propagates errors from Load().
Result<Reread> LoadAgain(const Sources& sources, const Loaded& running);

// Loads text from memory on top of the defaults. name: the path to show in messages. Propagates
// errors from Load().
Result<Loaded> LoadText(const std::string& name, std::string_view text, bool root);

// A key as shown in the documentation and by `carma config show`.
struct KeyInfo {
  std::string name;           // "policy.sm_cap"
  std::string type;           // what it accepts: "fraction 0..1, or false"
  std::string default_value;  // in file notation
  std::string meaning;
  bool live = true;  // LoadAgain applies it; otherwise only a restart does
};
std::vector<KeyInfo> Keys();

}  // namespace carma::config
