#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "api/troubles.h"
#include "base/file.h"
#include "base/spawn.h"
#include "cli/doctor/ask.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/mps.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The first finding that is not kOk, or an empty finding if there is none.
Finding FirstMachineTrouble(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.level != Level::kOk) return finding;
  }
  return {};
}

// Provides a temporary folder in which each test creates the files that carma doctor reads.
class DoctorMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/carma-doctor-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text, unsigned mode = 0644) {
    ASSERT_TRUE(base::MakeDirs(root_ + path.substr(0, path.rfind('/'))));
    ASSERT_TRUE(base::WriteFileAtomic(root_ + path, text, mode));
  }
  void Link(const std::string& path, const std::string& target) {
    ASSERT_TRUE(base::MakeDirs(root_ + path.substr(0, path.rfind('/'))));
    std::filesystem::create_symlink(target, root_ + path);
  }
  std::string root_;
};

TEST_F(DoctorMachine, AnEmptyMachineHasNoFindings) {
  EXPECT_EQ(Worst(CheckRights(root_, true, false)), Level::kOk);
  EXPECT_EQ(Worst(CheckRights(root_, false, false)), Level::kOk);
  config::Settings streams;
  streams.collocation = core::SharingMethod::kStreams;
  EXPECT_EQ(Worst(CheckMps(root_, streams, "/bin", true, std::nullopt)), Level::kOk);
  EXPECT_TRUE(CheckSettings(root_, {}).empty());
}

TEST_F(DoctorMachine, ReportsHiddenProcessesOfOtherUsers) {
  Put("/proc/mounts", "proc /proc proc rw,nosuid,hidepid=invisible 0 0\n");
  EXPECT_THAT(FirstMachineTrouble(CheckRights(root_, false, false)).text,
              HasSubstr("hidepid=invisible"));
  EXPECT_EQ(Worst(CheckRights(root_, true, false)), Level::kOk) << "root sees them";
  Put("/proc/mounts", "proc /proc proc rw,hidepid=0 0 0\ntmpfs /x tmpfs rw,hidepid=2 0 0\nshort\n");
  EXPECT_EQ(Worst(CheckRights(root_, false, false)), Level::kOk);
}

TEST_F(DoctorMachine, ReportsASeparatePidNamespace) {
  Link("/proc/self/ns/pid", "pid:[4026532211]");
  EXPECT_THAT(FirstMachineTrouble(CheckRights(root_, true, false)).text,
              HasSubstr("pid namespace"));
  EXPECT_EQ(Worst(CheckRights(root_, true, true)), Level::kOk) << "a simulated driver shares it";
}

TEST_F(DoctorMachine, ReportsCountersForAdministratorsOnly) {
  Put("/proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n");
  EXPECT_THAT(FirstMachineTrouble(CheckRights(root_, false, false)).text,
              HasSubstr("administrators"));
  EXPECT_EQ(Worst(CheckRights(root_, true, false)), Level::kOk);
}

// A machine that has NVIDIA's MPS control program and is configured to use MPS.
class DoctorMps : public DoctorMachine {
 protected:
  void SetUp() override {
    DoctorMachine::SetUp();
    settings_.mps_dir = "/run/carma/mps";
    settings_.collocation = core::SharingMethod::kMps;
    Put("/usr/bin/nvidia-cuda-mps-control", "#!/bin/sh\n", 0755);
    ASSERT_TRUE(base::MakeDirs(root_ + "/run"));
  }
  std::vector<Finding> Check() { return CheckMps(root_, settings_, "/bin:/usr/bin", true, trial_); }
  config::Settings settings_;
  MpsTrial trial_;
};

// A process that holds the lock of a control daemon while the object exists.
class LockOf {
 public:
  explicit LockOf(const std::string& path) {
    const auto ready = base::MakePipe();
    pid_ = ::fork();
    if (pid_ == 0) {
      const int fd = ::open(path.c_str(), O_RDWR);
      struct flock lock {};
      lock.l_type = F_WRLCK;
      if (::fcntl(fd, F_SETLK, &lock) != 0 || ::write(ready->write.get(), "!", 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready->read.get(), &byte, 1), 1);
  }
  ~LockOf() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  LockOf(const LockOf&) = delete;
  LockOf& operator=(const LockOf&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST_F(DoctorMps, ReportsTheTrialOfAControlDaemon) {
  trial_ = task::MpsAbilities{.tells_state = true, .logs = true};
  EXPECT_EQ(Worst(Check()), Level::kOk);
  EXPECT_THAT(Check()[1].text, HasSubstr("started, queried and stopped"));
  trial_ = task::MpsAbilities{.tells_state = false, .logs = true};
  EXPECT_EQ(FirstMachineTrouble(Check()).level, Level::kWarn);
  EXPECT_THAT(FirstMachineTrouble(Check()).remedy, HasSubstr("550"));
  trial_ = task::MpsAbilities{.tells_state = true, .logs = false};
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("no logs"));
  settings_.sm_partitions = true;
  trial_ = task::MpsAbilities{.tells_state = true, .logs = true};
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("--sm-share only limits the SMs"));
  trial_->value().partitions = true;
  EXPECT_EQ(Worst(Check()), Level::kOk);
  trial_ = Unavailable("it exited with code 100");
  EXPECT_EQ(FirstMachineTrouble(Check()).level, Level::kBad);
  EXPECT_THAT(FirstMachineTrouble(Check()).text,
              HasSubstr("exited with code 100): all tasks share GPUs through streams"));
}

TEST_F(DoctorMps, WarnsThatASharedServerIsolatesNothing) {
  settings_.mps_servers = task::MpsScope::kShared;
  trial_ = task::MpsAbilities{.tells_state = true, .logs = true};
  EXPECT_EQ(FirstMachineTrouble(Check()).level, Level::kWarn);
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("nothing isolates their processes"));
  EXPECT_THAT(FirstMachineTrouble(Check()).remedy, Not(HasSubstr("root")));
  EXPECT_THAT(FirstMachineTrouble(CheckMps(root_, settings_, "/usr/bin", false, trial_)).remedy,
              HasSubstr("run carma doctor as root to test"));
  trial_ = Denied("that needs driver branch 580 or newer");
  EXPECT_EQ(FirstMachineTrouble(Check()).level, Level::kBad);
  EXPECT_THAT(FirstMachineTrouble(Check()).text,
              HasSubstr("branch 580 or newer): all tasks share GPUs through"));
  EXPECT_THAT(FirstMachineTrouble(Check()).remedy,
              HasSubstr("set collocation.mps_servers to \"user\""));
  for (const Finding& each : Check()) EXPECT_THAT(each.text, Not(HasSubstr("isolates")));
  trial_ = Unavailable("it exited with code 100");
  EXPECT_THAT(FirstMachineTrouble(Check()).remedy, HasSubstr("-d -M"));
}

TEST_F(DoctorMps, AutoDoesNotNeedAControlDaemon) {
  settings_.collocation.reset();
  trial_ = Unavailable("it exited with code 100");
  EXPECT_EQ(Worst(Check()), Level::kWarn);
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("all tasks share GPUs through streams"));
  settings_.mps_control = "/opt/none";
  EXPECT_EQ(Worst(Check()), Level::kWarn);
  settings_.policy.mapper = core::kNeverSharing;
  EXPECT_EQ(Worst(Check()), Level::kOk) << "it is not needed";
}

TEST_F(DoctorMps, NeedsAProgramThatCanBeRun) {
  EXPECT_EQ(Worst(Check()), Level::kOk) << FirstMachineTrouble(Check()).text;
  EXPECT_THAT(Check()[0].text, HasSubstr("/usr/bin/nvidia-cuda-mps-control; at most 48 processes"));
  EXPECT_THAT(Check()[0].text, HasSubstr("memory is limited only if there is a single GPU"));
  settings_.mps_servers = task::MpsScope::kGpu;
  EXPECT_THAT(Check()[0].text,
              HasSubstr("each process is limited to its task's promise plus policy.margin"));
  settings_.mps_memory_limit = false;
  EXPECT_THAT(Check()[0].text, HasSubstr("memory is not limited"));
  settings_.mps_control = "/opt/mps-control";
  EXPECT_EQ(Worst(Check()), Level::kBad);
  EXPECT_THAT(FirstMachineTrouble(Check()).remedy, HasSubstr("collocation.mps_control"));
  Put("/opt/mps-control", "", 0644);
  EXPECT_EQ(Worst(Check()), Level::kBad) << "it cannot be run";
  Put("/opt/mps-control", "", 0755);
  EXPECT_EQ(Worst(Check()), Level::kOk);
  settings_.mps_control = "mps-control";
  settings_.simgpu_state = "/server";
  EXPECT_THAT(FirstMachineTrouble(Check()).remedy, HasSubstr("carma-simmps"));
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("mps-control is not in $PATH"));
}

TEST_F(DoctorMps, NeedsAFolderThatOthersCannotWrite) {
  Put("/run/carma/mps/.keep", "");
  EXPECT_EQ(Worst(Check()), Level::kOk);
  ::chmod((root_ + "/run/carma/mps").c_str(), 0777);
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("is writable by other users"));
  settings_.mps_dir = "/run/carma/mps/.keep/mps";
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("is not a folder"));
  if (::geteuid() == 0) return;  // root may write everywhere
  settings_.mps_dir = "/run/other/mps";
  ::chmod((root_ + "/run").c_str(), 0555);
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("cannot be created or written: /run"));
  EXPECT_EQ(Worst(CheckMps(root_, settings_, "/usr/bin", false, std::nullopt)), Level::kOk)
      << "carmad runs as another user, who may write there";
  ::chmod((root_ + "/run").c_str(), 0755);
}

TEST_F(DoctorMps, ListsTheControlDaemonsOfCarma) {
  Put("/run/carma/mps/1000/1a2b/control_lock", "");
  Put("/run/carma/mps/1000/ffff/control_lock", "");
  Put("/run/carma/mps/1001/1a2b/nvidia-cuda-mps-control.pid", "1");
  Put("/run/carma/mps/1002/1a2b.log/server.log", "");
  EXPECT_THAT(Check()[0].text, HasSubstr("0 CARMA control daemons are running; 2 exited"));
  {
    const LockOf daemon(root_ + "/run/carma/mps/1000/1a2b/control_lock");
    EXPECT_THAT(
        Check()[0].text,
        HasSubstr(fmt::format("1 CARMA control daemon is running: uid 1000 (pid {}); 1 exited",
                              daemon.pid())));
    EXPECT_EQ(Worst(Check()), Level::kOk);
    settings_.collocation = core::SharingMethod::kStreams;
    EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("is not \"mps\""));
  }
  EXPECT_EQ(Check()[0].text, "not used (collocation.method)");
}

TEST_F(DoctorMps, WarnsAboutForeignControlDaemons) {
  Put("/tmp/nvidia-mps/control_lock", "");
  EXPECT_EQ(Worst(Check()), Level::kOk) << "it has exited";
  const LockOf daemon(root_ + "/tmp/nvidia-mps/control_lock");
  EXPECT_THAT(FirstMachineTrouble(Check()).text,
              HasSubstr(fmt::format("by CARMA (pid {}) is serving /tmp/nvidia-mps", daemon.pid())));
  EXPECT_THAT(FirstMachineTrouble(Check()).remedy, HasSubstr("echo quit | "));
  settings_.collocation = core::SharingMethod::kStreams;
  EXPECT_EQ(FirstMachineTrouble(Check()).level, Level::kWarn);
}

TEST_F(DoctorMps, WarnsAboutRootsDaemonOfProtocol3) {
  Put("/run/nvidia-mps/control_lock", "");
  const LockOf daemon(root_ + "/run/nvidia-mps/control_lock");
  EXPECT_THAT(FirstMachineTrouble(Check()).text, HasSubstr("is serving /run/nvidia-mps"));
}

TEST_F(DoctorMachine, WarnsAboutUnlikelySettings) {
  config::Settings settings;
  settings.notify_admin = {"root@example.org", "/opt/tell"};
  const std::string expected = "notify.admin: /opt/tell is not an executable program";
  EXPECT_EQ(FirstMachineTrouble(CheckSettings(root_, settings)).text, expected);
  Put("/opt/tell", "", 0644);
  EXPECT_EQ(FirstMachineTrouble(CheckSettings(root_, settings)).text, expected);
  Put("/opt/tell", "", 0755);
  EXPECT_TRUE(CheckSettings(root_, settings).empty());

  settings = {};
  settings.window = base::Duration(2'500);
  EXPECT_THAT(FirstMachineTrouble(CheckSettings(root_, settings)).text,
              HasSubstr("monitor.window of 2.5 s holds fewer than 3 samples (one every 1 s)"));
  settings = {};
  settings.policy.stale_after = base::Duration(1'500);
  EXPECT_THAT(FirstMachineTrouble(CheckSettings(root_, settings)).text,
              HasSubstr("policy.stale_after"));
  settings = {};
  settings.idle_after = base::Duration(30'000);
  EXPECT_THAT(FirstMachineTrouble(CheckSettings(root_, settings)).text,
              HasSubstr("idle.after of 30 s"));
  EXPECT_NE(FirstMachineTrouble(CheckSettings(root_, settings)).remedy, "");
  settings.idle_after.reset();
  EXPECT_TRUE(CheckSettings(root_, settings).empty());
  settings.policy.margin_mib = 5;
  EXPECT_THAT(FirstMachineTrouble(CheckSettings(root_, settings)).text,
              HasSubstr("policy.margin is only 5M"));
  EXPECT_EQ(FirstMachineTrouble(CheckSettings(root_, settings)).remedy, "did you mean \"5G\"?");
  settings.policy.margin_mib = 0;
  settings.policy.floor_share = 0;
  settings.policy.floor_mib = 255;
  EXPECT_THAT(FirstMachineTrouble(CheckSettings(root_, settings)).text, HasSubstr("policy.floor"));
  settings.policy.floor_share = 0.375;
  settings.host_memory_mib = 64;
  EXPECT_THAT(FirstMachineTrouble(CheckSettings(root_, settings)).text, HasSubstr("host.memory"));
  settings.host_memory_mib.reset();
  EXPECT_TRUE(CheckSettings(root_, settings).empty());
  settings.socket_group = "nogroup_x";
  EXPECT_EQ(FirstMachineTrouble(CheckSettings(root_, settings)).level, Level::kBad);
  EXPECT_THAT(FirstMachineTrouble(CheckSettings(root_, settings)).text,
              HasSubstr("daemon.socket_group: no group 'nogroup_x'"));
  settings.socket_group = "root";
  settings.allow_groups = {"root", "nogroup_y"};
  EXPECT_THAT(FirstMachineTrouble(CheckSettings(root_, settings)).text,
              HasSubstr("daemon.allow_groups: no group 'nogroup_y'"));
  EXPECT_EQ(FirstMachineTrouble(CheckSettings(root_, settings)).level, Level::kWarn)
      << "carmad starts anyway";
  settings.allow_groups.clear();
  settings.admins = {"root", "nobodyhere"};
  const std::vector<Finding> findings = CheckSettings(root_, settings);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].text, HasSubstr("daemon.admins: no user 'nobodyhere'"));
}

TEST_F(DoctorMachine, ChecksNotificationPrograms) {
  config::Settings settings;
  std::vector<Finding> findings = CheckNotices(root_, settings);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_THAT(findings[0].text,
              HasSubstr("mail cannot be sent: there is no program /usr/sbin/sendmail"));
  EXPECT_THAT(findings[0].remedy, HasSubstr("notify.allow"));
  EXPECT_THAT(findings[1].text, HasSubstr("curl is not installed"));
  Put("/usr/sbin/sendmail", "", 0755);
  Put("/usr/bin/curl", "", 0755);
  EXPECT_EQ(Worst(CheckNotices(root_, settings)), Level::kOk);
  Put("/usr/sbin/sendmail", "", 0644);
  EXPECT_EQ(Worst(CheckNotices(root_, settings)), Level::kWarn);
  settings.notify_allow = {"webhook"};
  EXPECT_EQ(Worst(CheckNotices(root_, settings)), Level::kOk);
  settings.notify_enabled = false;
  EXPECT_TRUE(CheckNotices(root_, settings).empty());
}

TEST_F(DoctorMachine, WarnsIfTheKernelLogCannotBeRead) {
  config::Settings settings;
  EXPECT_THAT(FirstMachineTrouble(CheckKernelLog(root_, settings)).text,
              HasSubstr("monitor.kernel_log: cannot open /dev/kmsg (No such file"));
  Put("/dev/kmsg", "");
  EXPECT_TRUE(CheckKernelLog(root_, settings).empty());
  settings.kernel_log = "/dev/none";
  EXPECT_FALSE(CheckKernelLog(root_, settings).empty());
  settings.collocation = core::SharingMethod::kStreams;
  EXPECT_TRUE(CheckKernelLog(root_, settings).empty()) << "a fault affects only its own program";
  settings = {};
  settings.kernel_log = "";
  EXPECT_TRUE(CheckKernelLog(root_, settings).empty());
}

TEST_F(DoctorMachine, WarnsAboutUselessProfiles) {
  const std::string header =
      "workload,gpu_type,sm_active,sensitivity,pressure,load_s,time_s,iterations,memory_mib,runs,"
      "time_spread,meetings,fit_error,signature\n";
  config::Settings settings;
  settings.estimate_profiles = root_ + "/profiles.csv";
  const auto check = [&](const std::vector<std::string>& types) {
    return CheckProfiles(settings, types);
  };
  EXPECT_THAT(check({}).text, HasSubstr("estimate.profiles: "));
  EXPECT_EQ(check({}).level, Level::kWarn);
  Put("/profiles.csv", header + "a,A100,0.4,,,1,60,,2000,3\n");
  EXPECT_THAT(check({}).text, HasSubstr("profiles.csv:2"));
  Put("/profiles.csv", header + "a,A100,0.4,,,1,60,,2000,3,0,0,,\n");
  EXPECT_THAT(check({"A100"}).text, HasSubstr("none of 1 profiles has a signature"));
  Put("/profiles.csv", header + "a,A100,0.4,,,1,60,,2000,3,0,0,,1000-x\n");
  EXPECT_THAT(check({"H100"}).text, HasSubstr("measured on this server's GPUs"));
  EXPECT_EQ(check({"H100", "A100"}).level, Level::kOk);
  EXPECT_EQ(check({}).level, Level::kOk) << "the types are unknown";
}

TEST(Doctor, CgroupsDiskClockAndDaemon) {
  config::Settings settings;
  EXPECT_EQ(CheckCgroups({.root = "/r", .path = "/r/p", .reason = ""}, settings).level, Level::kOk);
  EXPECT_EQ(CheckCgroups({.root = "", .path = "", .reason = "read-only"}, settings).level,
            Level::kWarn);
  settings.cgroups = false;
  EXPECT_EQ(CheckCgroups({}, settings).level, Level::kOk);

  const auto disk = [](std::uint64_t mib, std::uint64_t files) {
    return CheckDisk(DiskFacts{.path = "/s", .free_bytes = mib << 20, .free_files = files}).level;
  };
  EXPECT_EQ(disk(2'000, 5'000), Level::kOk);
  EXPECT_EQ(disk(500, 5'000), Level::kWarn);
  EXPECT_EQ(disk(50, 5'000), Level::kBad);
  EXPECT_EQ(disk(2'000, 10), Level::kBad);
  EXPECT_EQ(CheckDisk(Denied("x")).level, Level::kBad);
  const Finding closed = CheckDisk(
      DiskFacts{.path = "/s", .free_bytes = 1ULL << 40, .free_files = 5'000, .writable = false});
  EXPECT_EQ(closed.level, Level::kBad);
  EXPECT_EQ(closed.text, "/s is not writable, but must contain daemon.state_dir");

  constexpr std::int64_t kNow = 1'790'000'000'000;
  EXPECT_EQ(CheckClock({.now_ms = kNow, .daemon_ms = kNow - 4'000}).level, Level::kOk);
  EXPECT_EQ(CheckClock({.now_ms = kNow, .daemon_ms = kNow - 60'000}).level, Level::kWarn);
  EXPECT_EQ(CheckClock({.now_ms = kNow, .synchronised = false}).level, Level::kWarn);
  EXPECT_EQ(CheckClock({.now_ms = 1'000}).level, Level::kBad);
}

TEST(Doctor, TheSharingMethodIsCarmadsOrThatOfTheTrial) {
  config::Settings settings;
  const MpsTrial failed = Result<task::MpsAbilities>(Unavailable("no control daemon"));
  using core::SharingMethod;
  EXPECT_EQ(MethodInForce(settings, "streams: at most 3 tasks", {}), SharingMethod::kStreams);
  EXPECT_EQ(MethodInForce(settings, "mps: tasks of one user", failed), SharingMethod::kMps);
  EXPECT_EQ(MethodInForce(settings, "", failed), SharingMethod::kStreams);
  EXPECT_EQ(MethodInForce(settings, "", {}), SharingMethod::kMps);
  settings.collocation = SharingMethod::kAlone;
  EXPECT_EQ(MethodInForce(settings, "mps: tasks of one user", {}), SharingMethod::kAlone);
}

TEST(Doctor, WaitingForTheDriverIsNoJumpOfTheClock) {
  // The clocks agreed when the daemon answered. It must not matter how much later the check runs.
  constexpr std::int64_t kAsked = 1'790'000'000'000;
  DaemonFacts daemon{.status = api::StatusView{.now_ms = kAsked}, .gpus = {}, .asked_ms = kAsked};
  EXPECT_THAT(CheckClock(AskClock(daemon)).text, Not(HasSubstr("differs")));
  daemon.asked_ms += 60'000;
  EXPECT_THAT(CheckClock(AskClock(daemon)).text, HasSubstr("the daemon's clock differs by 60 s"));
}

TEST(Doctor, ADaemonWithOtherSettingsIsNoticed) {
  const DaemonFacts daemon{.status = api::StatusView{.driver = "ok"}, .gpus = {{}, {}}};
  const DriverFacts none{.versions = std::unexpected(gpu::NoDriver{.message = "no NVML library"}),
                         .gpus = Unavailable("")};
  ASSERT_EQ(CheckSameDriver(daemon, none).size(), 1U);
  EXPECT_THAT(CheckSameDriver(daemon, none)[0].text, HasSubstr("carmad found 2 GPUs"));
  const DaemonFacts away{.status = Unavailable("not running"), .gpus = {}};
  EXPECT_TRUE(CheckSameDriver(away, none).empty());
  const DriverFacts same{.versions = gpu::DriverVersions{}, .gpus = std::vector<GpuFacts>{}};
  EXPECT_TRUE(CheckSameDriver(daemon, same).empty());
}

TEST(Doctor, ReportsThatCarmadNumbersItsGpusDifferently) {
  DaemonFacts daemon{.status = api::StatusView{.driver = "ok"}, .gpus = {{}, {}}};
  daemon.gpus[0].uuid = "GPU-b";
  daemon.gpus[1].index = 1;
  daemon.gpus[1].uuid = "GPU-c";
  DriverFacts driver{.versions = gpu::DriverVersions{}, .gpus = std::vector<GpuFacts>(3)};
  (*driver.gpus)[0].info.uuid = "GPU-a";
  (*driver.gpus)[1].info.uuid = "GPU-b";  // GPU-c is lost
  const std::vector<Finding> found = CheckSameDriver(daemon, driver);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].level, Level::kOk);
  EXPECT_THAT(found[0].text, HasSubstr("(daemon.gpus): 0 is GPU-b, 1 is GPU-c"));
  daemon.gpus[0].uuid = "GPU-a";
  daemon.gpus[1].uuid = "GPU-b";
  EXPECT_TRUE(CheckSameDriver(daemon, driver).empty());
  (*driver.gpus)[1].info.uuid = std::string(gpu::kUnknownGpu) + "1";
  EXPECT_TRUE(CheckSameDriver(daemon, driver).empty()) << "the driver did not report the UUID";
}

TEST(Doctor, MemoryThatMpsDoesNotLimitHasARemedy) {
  DaemonFacts daemon{.status = api::StatusView{}, .gpus = {}};
  daemon.status->memory_limits = "nobody";
  daemon.status->collocation = "mps: tasks of one user compute on a GPU at the same time";
  const auto text = [&] {
    for (const Finding& finding : CheckDaemon(daemon))
      if (finding.topic == "GPU memory") return finding.text;
    return std::string();
  };
  EXPECT_EQ(text(),
            "task limits are not enforced (collocation.mps_servers = \"gpu\" enforces them)");
  daemon.status->collocation = "streams: at most 4 tasks";
  EXPECT_EQ(text(), "task limits are not enforced");
}

TEST(Doctor, AnUnknownGroupIsReportedOnce) {
  DaemonFacts daemon{.status = api::StatusView{}, .gpus = {}};
  daemon.status->troubles = {api::UnknownGroup("no group 'x'")};
  const Finding same{"settings", Level::kWarn, "daemon.allow_groups: no group 'x'", ""};
  const Finding other{"settings", Level::kWarn, "daemon.allow_groups: no group 'y'", ""};
  EXPECT_EQ(Worst(CheckDaemon(daemon, {same})), Level::kOk);
  EXPECT_EQ(Worst(CheckDaemon(daemon, {other})), Level::kWarn);
}

TEST(Doctor, ReportsTheDaemonsProblemsAndClosedGpus) {
  DaemonFacts daemon{.status = Unavailable("not running"), .gpus = {}};
  EXPECT_EQ(CheckDaemon(daemon)[0].level, Level::kWarn);
  EXPECT_EQ(CheckDaemon(daemon)[0].remedy,
            "if carmad listens elsewhere, name its socket with --socket")
      << "the error says how to start it, and who may";
  daemon.status = api::StatusView{};
  daemon.gpus.resize(3);
  EXPECT_EQ(Worst(CheckDaemon(daemon)), Level::kOk);
  daemon.status->host = {.cpus = 8, .not_enforced = "CARMA cannot enforce CPU limits: no cgroups."};
  EXPECT_THAT(FirstMachineTrouble(CheckDaemon(daemon)).text, ::testing::HasSubstr("not enforced"));
  daemon.status->host = {};
  daemon.status->troubles = {"store: disk full"};
  EXPECT_EQ(FirstMachineTrouble(CheckDaemon(daemon)).text, "store: disk full");
  daemon.status->troubles.clear();
  daemon.gpus[2].index = 2;
  daemon.gpus[2].state = "drain";
  daemon.gpus[2].trouble = "Xid 79: fell off the bus";
  const Finding drained = FirstMachineTrouble(CheckDaemon(daemon));
  EXPECT_EQ(drained.text, "gpu 2 takes no tasks: Xid 79: fell off the bus");
  EXPECT_THAT(drained.remedy, HasSubstr("carma resume 2"));
  daemon.gpus[1] = daemon.gpus[2];
  daemon.gpus[1].index = 1;
  daemon.status->troubles = {"GPU 1 accepts no new tasks: Xid 79: fell off the bus"};
  EXPECT_EQ(CheckDaemon(daemon).size(), 2U) << "a shared cause is shown once";
  EXPECT_EQ(FirstMachineTrouble(CheckDaemon(daemon)).remedy,
            "once that is fixed, run carma resume 1,2");
  daemon.gpus[1].trouble += "; the driver does not answer";
  daemon.status->troubles.emplace_back("GPU 1: the driver does not answer");
  EXPECT_EQ(CheckDaemon(daemon).size(), 3U) << "both problems are reported with the GPU";
  daemon.gpus[1].trouble = daemon.gpus[2].trouble;
  daemon.status->troubles = {"GPU 1: 4.0 GiB is used by no process"};
  EXPECT_EQ(CheckDaemon(daemon).size(), 3U) << "alerts are shown in addition to the drain reason";
  daemon.status->driver = "it hangs";
  daemon.status->troubles = {"driver: it hangs"};
  EXPECT_EQ(FirstMachineTrouble(CheckDaemon(daemon)).text, "driver: it hangs");
  daemon.gpus[2].state = "down";
  daemon.gpus[1].trouble = "";
  EXPECT_EQ(CheckDaemon(daemon).size(), 2U) << "a silent driver is reported with its GPUs";
  EXPECT_THAT(FirstMachineTrouble(CheckDaemon(daemon)).remedy, HasSubstr("automatically"));
}

}  // namespace
}  // namespace carma::cli
