// Configuration of the daemon: text -> plain struct with origins -> validated settings.
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

// The method's name in collocation.method: "streams", "mps", "exclusive" (kAlone).
std::string_view CollocationName(core::SharingMethod method);

// The policy.mapper that depends on the sharing method: by-work if that pays, else magm.
inline constexpr std::string_view kAutoMapper = "auto";

struct Settings;
// The policy for a sharing method: the mapper, its values for keys that are not set, and under
// streams, where tasks take turns, streams_sm_cap and streams_tasks. The published rules are not
// changed.
core::PolicyConfig PolicyFor(const Settings& settings, core::SharingMethod method);

struct Settings {
  // [daemon]
  std::string
      socket;  // default /run/carma/carmad.sock, rootless $XDG_RUNTIME_DIR/carma/carmad.sock
  std::string state_dir;  // default /var/lib/carma, rootless $XDG_STATE_HOME/carma
  unsigned socket_mode = 0666;
  std::string socket_group;  // empty: the daemon's own
  // Users who may do more than read, besides root, the daemon's own user and admins; both empty:
  // everybody.
  std::vector<std::string> allow_users;
  std::vector<std::string> allow_groups;
  int keep_finished_days = 90;
  std::string log_level = "info";
  std::optional<int> http_port;                 // read-only pages on loopback
  std::vector<std::string> reservation_makers;  // users who may reserve GPUs besides admins
  std::vector<std::string> admins;              // user names besides root and the daemon's own
  std::vector<std::string> gpus;                // only these (gpu/own_devices.h); empty: all
  // [policy], [recovery]: core::PolicyConfig; "published" = "thesis" | "v2" replaces the rules by
  // those of the published system
  std::optional<std::string> published;
  std::string mapper{kAutoMapper};  // as configured; `policy` has the one in force
  core::PolicyConfig policy;
  // [collocation]
  // Empty, "auto": MPS if NVIDIA's control daemon answers, else streams.
  std::optional<core::SharingMethod> collocation;
  std::optional<double> streams_sm_cap = 0.40;  // instead of policy.sm_cap under streams
  int streams_tasks = 3;                        // and of policy.max_tasks_per_gpu
  std::string without_mps;                      // why "auto" chose streams; no key
  bool kernel_limits = false;                   // of GPU memory; found by the daemon, no key
  std::string without_limits;                   // why there are none
  task::MpsScope mps_servers = task::MpsScope::kUser;
  bool sm_partitions = false;  // --sm-share gives SMs of its own; only with a server per GPU
  int mps_clients = 48;        // an MPS server with this many takes no more
  std::string mps_control = "nvidia-cuda-mps-control";  // in $PATH, or an absolute path
  // Folder of the pipes and logs of MPS servers; default /run/carma/mps, rootless
  // $XDG_RUNTIME_DIR/carma/mps.
  std::string mps_dir;
  base::Duration mps_timeout{10'000};  // real time to wait for a control daemon
  bool mps_memory_limit = true;        // limit processes to promise and margin
  // [monitor]
  gpu::ActivitySource activity_source = gpu::ActivitySource::kAuto;  // "auto", "nvml", "dcgm"
  base::Duration sample_period{1'000};
  base::Duration window{60'000};
  base::Duration ewma{15'000};  // time constant of the second mean that is shown
  base::Duration history{base::Duration{900'000}};  // how long single readings are kept
  std::int64_t unattributed_mib = 2048;             // alert above this unattributed memory
  base::Duration probe_timeout{10'000};             // real time; a probe that takes longer is hung
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string kernel_log = "/dev/kmsg";     // empty: not read
  std::vector<core::TypeSpeed> gpu_speeds;  // relative to an A100-40GB; override built-in ones
  // [health]
  gpu::HealthRules health;
  // [idle]; policy.idle_action
  std::optional<base::Duration> idle_after{1'800'000};  // empty: idle holders are not detected
  double idle_below = 0.01;                             // SM activity that counts as idle, 0..1
  // [notify]
  bool notify_enabled = true;
  std::vector<std::string> notify_allow = {"mail", "webhook", "program"};  // task::NotifyKind
  std::int64_t notify_per_hour = 100;                                      // of one user
  std::string notify_sendmail = "/usr/sbin/sendmail";
  base::Duration notify_time_limit{30'000};  // real time, of one try
  // Targets notified of idle holders and failing GPUs, in the form that task::ParseNotifyTarget
  // reads.
  std::vector<std::string> notify_admin;
  // [slurm]
  bool slurm_enabled = false;  // requeue jobs that ran out of GPU memory
  int slurm_retries = 3;       // of one job
  std::string slurm_scontrol = "/usr/bin/scontrol";
  std::string slurm_squeue = "/usr/bin/squeue";
  // [task]
  base::Duration kill_grace{30'000};
  std::int64_t max_output_mib = 1024;  // per file, then rotated; 0: unlimited
  int output_rotations = 1;
  std::optional<base::Duration> default_time_limit;
  std::int64_t max_processes = 32'768;  // and threads, of one task; 0: no limit
  std::size_t max_queued_tasks = 1'000'000;
  std::size_t max_queued_per_user = 500'000;
  std::size_t max_batch = 200'000;  // tasks of one submission
  bool cgroups = true;              // one cgroup v2 per task if possible
  // [host]; policy.cpus_per_gpu, policy.host_memory_per_gpu_mib
  std::optional<int> host_cpus;                 // for tasks; empty: the machine's, less a reserve
  std::optional<std::int64_t> host_memory_mib;  // empty: as host_cpus
  bool cpu_cap = false;                         // hard limit; else idle cores are shared
  // [estimate]
  std::string estimate_method = "auto";        // of estimate/estimator.h
  double estimate_coverage = 0.90;             // share of runs within their promise; 0: the point
  base::Duration estimate_time_limit{10'000};  // real time, of one task's estimate
  bool estimate_history = true;                // learn from finished tasks
  bool estimate_prefer_given = true;           // the user's figure wins
  std::string estimate_profiles;               // file of `carma profile`; empty: none
  // [simulation]
  std::string simgpu_state;  // state file of a simulated server; empty: real
  // Names of the keys that were set, by a file, the environment or a flag.
  std::set<std::string, std::less<>> chosen;
  bool divided = false;  // all GPUs are MIG instances; set by the daemon, no key
};

struct Origin {
  std::string value;  // the value in force, in file notation
  // "default", "/etc/carma/carma.toml:12", "CARMA_POLICY_MAPPER", "--socket"; if policy.published
  // or collocation.method decided: "policy.published (/etc/carma/carma.toml:3)".
  std::string where;
};

struct Loaded {
  Settings settings;
  std::map<std::string, Origin> origins;  // by dotted name, every known key
};

struct Sources {
  // Files in order, later wins; missing ones are kNotFound unless optional.
  std::vector<std::pair<std::string, bool>> files;  // path, optional
  // CARMA_SECTION_KEY=value, and HOME, XDG_RUNTIME_DIR, XDG_STATE_HOME for the default paths. Other
  // CARMA_* names are ignored (tasks have some), unless they are almost a key.
  std::map<std::string, std::string> environment;
  std::vector<std::pair<std::string, std::string>> overrides;  // dotted name, value; from flags
  bool root = false;                                           // picks default paths
};

// Socket of a daemon that serves only its own user. runtime_dir: $XDG_RUNTIME_DIR, may be empty.
std::string OwnSocketPath(const std::string& runtime_dir);

// The ordinary chain: defaults, /etc/carma/carma.toml, /etc/carma/carma.d/*.toml, rootless the
// user's $XDG_CONFIG_HOME/carma/config.toml, then CARMA_*; `file` (from --config) replaces the
// files.
Sources StandardSources(const std::optional<std::string>& file, bool root);

// Errors: kInvalid "path:line: section.key: expected …" for syntax, unknown keys, wrong types,
// values out of range, and keys that contradict each other; kNotFound for a missing file.
Result<Loaded> Load(const Sources& sources);
// Whether the default of this key depends on the mapper.
bool FollowsMapper(std::string_view key);

// The result of reading a running daemon's configuration again.
struct Reread {
  Loaded loaded;  // to be used from now on
  // Keys with new values, in the order of the table: those in force now, and those that wait for a
  // restart.
  std::vector<std::string> changed;
  std::vector<std::string> need_restart;
};
// running: the daemon's current settings, as loaded. Errors: those of Load(), and kInvalid if a
// value that must stay contradicts a new one. policy.mapper stays if only one of the old and the
// new one shares GPUs.
Result<Reread> LoadAgain(const Sources& sources, const Loaded& running);

// Like Load() for one text in memory on top of the defaults; `name` is its path in messages.
Result<Loaded> LoadText(const std::string& name, std::string_view text, bool root);

// Every key, for docs and `carma config show`.
struct KeyInfo {
  std::string name;           // "policy.sm_cap"
  std::string type;           // what it accepts: "fraction 0..1, or false"
  std::string default_value;  // in file notation
  std::string meaning;
  bool live = true;  // applied by LoadAgain; else after a restart
};
std::vector<KeyInfo> Keys();

}  // namespace carma::config
