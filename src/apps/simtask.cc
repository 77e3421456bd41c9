// carma-simtask: a training task that runs on a simulated GPU server (docs/inside/simgpu.md).
#include <signal.h>

#include <CLI/CLI.hpp>

#include "base/file.h"
#include "base/standard_streams.h"
#include "lab/simgpu/training.h"

namespace {

using carma::simgpu::TrainingOptions;

const CLI::Range kShare(0.0, 1.0);
const CLI::Range kSpan(0.0, 1e9);

void AddWork(CLI::App& app, TrainingOptions& options) {
  app.add_option("--memory-mib", options.memory_mib,
                 "memory per GPU; the last value applies to all remaining GPUs")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--sm-active", options.sm_active, "SM activity when running alone, 0..1, per GPU")
      ->delimiter(',')
      ->check(kShare);
  app.add_option("--sensitivity", options.sensitivity,
                 "how much the task is slowed down by neighbours (s)")
      ->check(CLI::Range(0.0, 1e3));
  app.add_option("--pressure", options.pressure, "how much the task slows down neighbours (p)")
      ->check(CLI::Range(0.0, 1e3));
  app.add_option("--solo-s", options.solo_s,
                 "simulated seconds of work when running alone (default: a quick task)")
      ->check(kSpan);
  app.add_option("--first-batch-share", options.first_batch_share,
                 "share of the memory taken before the first batch")
      ->check(kShare);
  app.add_option("--epochs", options.epochs, "number of progress lines on stdout")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--log-flood", options.log_flood_bytes,
                 "bytes written to stdout when the work begins")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
}

void AddFailures(CLI::App& app, TrainingOptions& options, std::string& framework) {
  app.add_option("--framework", framework,
                 "print the messages of this framework: pytorch, tensorflow, jax");
  app.add_option("--crash-s", options.crash_s,
                 "seconds from a failed allocation until the task exits")
      ->check(kSpan);
  app.add_option("--grow-at", options.grow_at, "share of the work after which memory grows")
      ->check(kShare);
  app.add_option("--grow-mib", options.grow_mib, "memory growth per GPU (--grow-at)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--fail-at", options.fail_at, "share of the work after which the task fails")
      ->check(kShare);
  app.add_option("--exit-code", options.exit_code, "exit code of the failure (--fail-at)")
      ->check(CLI::Range(0, 255));
  app.add_option("--kill-self-at", options.kill_self_at,
                 "share of the work after which a signal kills the task")
      ->check(kShare);
  app.add_option("--signal", options.signal, "signal number (--kill-self-at)")
      ->check(CLI::Range(1, 64));
  app.add_option("--hang-at", options.hang_at, "share of the work after which the task hangs")
      ->check(kShare);
  app.add_option("--fault-at", options.fault_at,
                 "share of the work after which a kernel breaks the GPU's context")
      ->check(kShare);
  app.add_option("--xid", options.xid, "Xid that the driver reports after --fault-at; 0 for none")
      ->capture_default_str()
      ->check(CLI::Range(0, 999));
  app.add_flag("--ignore-term", options.ignore_term, "ignore SIGTERM");
  app.add_flag("--double-fork", options.double_fork,
               "use the GPU from a grandchild process in its own session");
  app.add_flag("--tell-memory", options.tell_memory,
               "print what cudaMemGetInfo would report for the first GPU once memory is allocated");
  app.add_flag("--warn-oom", options.warn_oom,
               "print TensorFlow's harmless memory warning, then succeed");
}

void AddCheckpoint(CLI::App& app, TrainingOptions& options) {
  app.add_option("--checkpoint-signal", options.checkpoint_signal,
                 "signal that makes the task save its progress: USR1, USR2 or HUP")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, int>{{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}}));
  app.add_option("--checkpoint-file", options.checkpoint_file,
                 "file that stores the task's progress; the task resumes from it");
}

// Reads the environment variables that configure MPS for a CUDA program.
carma::base::Result<carma::base::Unit> ReadMps(TrainingOptions& options) {
  using carma::base::GetEnv;
  options.mps_pipes = GetEnv("CUDA_MPS_PIPE_DIRECTORY");
  options.mps_partition = GetEnv("CUDA_MPS_SM_PARTITION");
  const auto limits =
      carma::simgpu::ParseMpsMemoryLimits(GetEnv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  if (!limits) return carma::base::Wrap(limits.error(), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  options.mps_memory_limits = *limits;
  const std::string percentage = GetEnv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  if (percentage.empty()) return carma::base::Unit{};
  const auto threads = carma::simgpu::ParseMpsPercentage(percentage);
  if (!threads) return carma::base::Wrap(threads.error(), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  options.mps_thread_percentage = *threads;
  return carma::base::Unit{};
}

}  // namespace

int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  CLI::App app{
      "A training task on a simulated GPU server (CARMA_SIMGPU_STATE, CUDA_VISIBLE_DEVICES)",
      "carma-simtask"};
  app.set_version_flag("--version", CARMA_VERSION);
  TrainingOptions options;
  std::string framework = "pytorch";
  std::optional<double> load_s;
  AddWork(app, options);
  AddFailures(app, options, framework);
  AddCheckpoint(app, options);
  app.add_option("--load-s", load_s,
                 "seconds from the start to the first allocation (default: 14; 0 for quick tasks)")
      ->check(kSpan);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto parsed = carma::simgpu::ParseFramework(framework);
  if (!parsed) {
    std::cerr << "carma-simtask: " << parsed.error().message << "\n";
    return 2;
  }
  options.framework = *parsed;
  options.load_s = load_s.value_or(options.solo_s > 0 ? 14 : 0);
  options.state_path = carma::base::GetEnv(carma::simgpu::kStateVariable);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) options.visible_devices = visible;
  if (const auto read = ReadMps(options); !read) {
    std::cerr << "carma-simtask: " << read.error().message << "\n";
    return 2;
  }
  return carma::simgpu::RunTraining(options);
}
