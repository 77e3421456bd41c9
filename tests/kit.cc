#include "tests/kit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/process_id.h"
#include "base/text.h"
#include "cli/calls.h"

namespace carma::system_test {
namespace {

constexpr std::size_t kMaxText = 64 << 20;
constexpr int kAskAgainMs = 5;

// The socket on which the daemon reports READY=1, as it would to a service manager.
class ReadySocket {
 public:
  explicit ReadySocket(const std::string& path) : path_(path) {
    ::unlink(path.c_str());
    fd_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
        << path << ": " << std::strerror(errno);
    ::chmod(path.c_str(), 0666);
  }
  ~ReadySocket() { ::unlink(path_.c_str()); }
  // Returns false if the process exits or nothing arrives in time.
  bool AwaitReady(int end_fd) const {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    while (std::chrono::steady_clock::now() < end) {
      pollfd entries[2] = {{fd_.get(), POLLIN, 0}, {end_fd, POLLIN, 0}};
      if (::poll(entries, 2, 1000) <= 0) continue;
      char text[512] = {};
      if ((entries[0].revents & POLLIN) != 0 && ::recv(fd_.get(), text, sizeof text - 1, 0) > 0 &&
          std::strstr(text, "READY=1") != nullptr) {
        return true;
      }
      if (entries[1].revents != 0) return false;
    }
    return false;
  }

 private:
  std::string path_;
  base::UniqueFd fd_;
};

// Kills every process whose command line names the folder, such as shims that outlive a failed
// test.
void KillLeftovers(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = base::ParseInt(entry.path().filename().string());
    if (!pid || *pid == ::getpid()) continue;
    const std::string line =
        base::ReadFile(entry.path().string() + "/cmdline", kMaxText).value_or("");
    if (line.find("carma") != line.npos && line.find(folder) != line.npos)
      ::kill(static_cast<pid_t>(*pid), SIGKILL);
  }
}

// Settings for a server whose clock runs a thousand times faster than real time. Samples are
// infrequent and never count as stale, because other tests can slow down this machine.
std::map<std::string, std::string> UsualSettings() {
  // Tasks share GPUs through streams, so that no test depends on the NVIDIA programs installed on
  // this machine. As many neighbours are allowed as under MPS.
  return {{"collocation.method", "\"streams\""}, {"collocation.streams_sm_cap", "0.8"},
          {"collocation.streams_tasks", "16"},   {"daemon.log_level", "\"info\""},
          {"monitor.sample_period", "\"5s\""},   {"monitor.window", "\"20s\""},
          {"policy.stale_after", "\"1d\""},      {"policy.settle_timeout", "\"2m\""},
          {"recovery.backoff", "\"5s\""},        {"task.kill_grace", "\"2s\""}};
}

template <class T>
T Value(const cli::Called<T>& called, const char* what) {
  if (called) return called->value;
  ADD_FAILURE() << what << ": " << called.error().message;
  return T{};
}

}  // namespace

std::string Program(const std::string& name) {
  return base::ExecutableDir() + "/" + name;
}

bool IsRoot() {
  return ::geteuid() == 0;
}

uid_t OtherUser() {
  constexpr uid_t kNobody = 65534;
  return kNobody;
}

Folder::Folder() {
  std::string pattern = ::testing::TempDir() + "carma-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << pattern;
  path_ = pattern;
  ::chmod(path_.c_str(), 0755);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void WriteText(const std::string& path, const std::string& text, unsigned mode) {
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  ASSERT_TRUE(fd) << path << ": " << std::strerror(errno);
  ASSERT_TRUE(base::WriteAll(fd.get(), text)) << path;
  ::fchmod(fd.get(), mode);
}

std::string ReadText(const std::string& path) {
  return base::ReadFile(path, kMaxText).value_or("");
}

bool Eventually(const std::function<bool()>& condition, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    ::poll(nullptr, 0, kAskAgainMs);
  }
  return true;
}

std::vector<std::string> SimTask(const Training& training) {
  std::vector<std::string> argv = {Program("carma-simtask"),
                                   "--memory-mib",
                                   std::to_string(training.memory_mib),
                                   "--solo-s",
                                   std::to_string(training.solo_s),
                                   "--sm-active",
                                   std::to_string(training.sm_active)};
  argv.insert(argv.end(), training.more.begin(), training.more.end());
  return argv;
}

// ---- the site ----

Site::Site(SiteOptions options)
    : settings_(UsualSettings()),
      programs_(base::ExecutableDir()),
      client_(folder_ / "carmad.sock") {
  std::filesystem::create_directory(out_dir());
  ::chmod(out_dir().c_str(), 01777);
  std::vector<std::string> create = {"create", "--shape", options.shape, "--time-scale",
                                     std::to_string(options.time_scale)};
  if (options.memory_limits) create.emplace_back("--memory-limits");
  const Ran made = SimGpu(create);
  EXPECT_TRUE(made.Ok()) << made.Text();
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  settings_["daemon.socket"] = quoted(socket());
  settings_["daemon.state_dir"] = quoted(state_dir());
  settings_["monitor.nvml_library"] = quoted(Program("libcarma-simgpu.so"));
  settings_["simulation.state"] = quoted(gpus_file());
  for (const auto& [key, value] : options.settings) settings_[key] = value;
  WriteConfig();
}

Site::~Site() {
  if (daemon_.started()) {
    CancelAll();
    // If a sanitizer killed the daemon, this shows its last output and its exit code.
    const Ran stopped = Stop(SIGTERM);
    EXPECT_EQ(stopped.code, 0) << stopped.Text();
  }
  KillLeftovers(folder_.path());
}

void Site::CancelAll() {
  cli::TaskQuery all;
  all.limit = SIZE_MAX;
  all.newest_first = true;  // cancel waiting tasks first, so that they do not start
  const auto page = cli::ListTasks(client_, all);
  if (!page) return;
  for (const api::TaskView& task : page->tasks) (void)cli::ChangeTask(client_, task.id, "cancel");
}

void Site::Set(const std::string& key, const std::string& value) {
  settings_[key] = value;
  WriteConfig();
}

void Site::WriteConfig() const {
  std::string text;
  // Keys with dots need no section.
  for (const auto& [key, value] : settings_) text += key + " = " + value + "\n";
  WriteText(config_file(), text);
}

void Site::Start(bool wait_gpus, const RunOptions& options) {
  const ReadySocket ready(folder_ / "ready");
  RunOptions with = options;
  with.environment["NOTIFY_SOCKET"] = folder_ / "ready";
  daemon_ = Child::Start({programs_ + "/carmad", "--config", config_file()}, with);
  ASSERT_TRUE(ready.AwaitReady(daemon_.end_fd())) << "carmad did not start:\n" << daemon_.Err();
  if (!wait_gpus) return;
  std::string why;
  ASSERT_TRUE(Eventually([&] {
    const auto gpus = cli::ListGpus(client_);
    if (!gpus) why = gpus.error().message;
    return gpus.has_value();
  })) << why;
}

Ran Site::Stop(int signal) {
  daemon_.Signal(signal);
  return daemon_.Wait();
}

// Makes the call from within this program, because another user may be unable to reach the build
// folder.
std::string Site::CallAs(uid_t uid, const std::string& method, const std::string& target,
                         const std::string& body) const {
  return CallAsUser(uid, [&] {
    api::Client client(socket());
    const auto answer = client.Call(method, target, body);
    return answer ? *answer : answer.error().message;
  });
}

std::string Site::SharedCarma() const {
  const std::string copy = folder_ / "carma";
  if (!base::Exists(copy)) std::filesystem::copy_file(Program("carma"), copy);
  return copy;
}

Child Site::StartCarma(std::vector<std::string> args, RunOptions options) const {
  args.insert(args.begin(), options.uid ? SharedCarma() : Program("carma"));
  options.environment["CARMA_SOCKET"] = socket();
  if (options.cwd.empty()) options.cwd = out_dir();
  return Child::Start(args, options);
}

Ran Site::Carma(std::vector<std::string> args, RunOptions options) const {
  return StartCarma(std::move(args), options).Wait(options.deadline);
}

std::uint64_t Site::Submit(std::vector<std::string> args, RunOptions options) const {
  args.insert(args.begin(), {"submit", "--json"});
  const Ran ran = Carma(args, std::move(options));
  const auto json = base::ParseJson(ran.out);
  if (ran.Ok() && json && json->is_object() && json->contains("first"))
    return (*json)["first"].get<std::uint64_t>();
  ADD_FAILURE() << "carma submit: " << ran.Text();
  return 0;
}

std::uint64_t Site::Train(std::vector<std::string> options, const Training& training) const {
  options.emplace_back("--");
  const std::vector<std::string> argv = SimTask(training);
  options.insert(options.end(), argv.begin(), argv.end());
  return Submit(std::move(options));
}

api::TaskView Site::Task(std::uint64_t id) {
  return Value(cli::GetTask(client_, id), "GET task");
}

api::TaskView Site::Await(std::uint64_t id, std::chrono::seconds deadline) {
  const api::TaskView view =
      Value(cli::AwaitTask(client_, id, static_cast<int>(deadline.count())), "wait for task");
  EXPECT_TRUE(view.ended_ms) << "task " << id << " has not ended: " << view.state << " "
                             << view.reason << " " << view.reason_text;
  return view;
}

api::TaskView Site::AwaitState(std::uint64_t id, const std::string& state) {
  api::TaskView view;
  EXPECT_TRUE(Eventually([&] {
    view = Task(id);
    return view.state == state || view.ended_ms;
  }));
  EXPECT_EQ(view.state, state) << "task " << id << ": " << view.reason << " " << view.reason_text
                               << " " << view.exit_detail;
  return view;
}

void Site::ExpectWaits(std::uint64_t id, const std::string& reason) {
  api::TaskView view;
  EXPECT_TRUE(Eventually([&] {
    view = Task(id);
    return view.reason == reason || view.ended_ms;
  }));
  EXPECT_EQ(view.reason, reason) << "task " << id << " is " << view.state << ": "
                                 << view.reason_text;
}

std::vector<api::GpuView> Site::Gpus() {
  return Value(cli::ListGpus(client_), "GET gpus");
}

api::StatusView Site::Status() {
  return Value(cli::GetStatus(client_), "GET status");
}

std::vector<api::EventView> Site::History(std::uint64_t id) {
  return Value(cli::ListEvents(client_, {.task = id, .limit = std::nullopt}), "GET events");
}

std::string Site::Output(std::uint64_t id) {
  return ReadText(Task(id).stdout_path);
}

Ran Site::SimGpu(std::vector<std::string> args) const {
  args.insert(args.begin(), Program("carma-simgpu"));
  args.insert(args.end(), {"--state", gpus_file()});
  return RunProgram(args);
}

std::vector<pid_t> Site::Processes(const std::string& name) const {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = base::ParseInt(entry.path().filename().string());
    if (!pid) continue;
    const std::string folder = entry.path().string();
    if (base::ReadFile(folder + "/comm", 64).value_or("") != name + "\n") continue;
    const std::string words = base::ReadFile(folder + "/cmdline", kMaxText).value_or("") +
                              base::ReadFile(folder + "/environ", kMaxText).value_or("");
    if (words.find(folder_.path() + "/") != std::string::npos)
      pids.push_back(static_cast<pid_t>(*pid));
  }
  // A newly forked child of a shim keeps the shim's name until it execs the task.
  const std::vector<pid_t> all = pids;
  std::erase_if(pids, [&](pid_t pid) {
    const auto stat = base::ReadProcessStat(pid);
    return !stat || std::ranges::find(all, stat->parent) != all.end();
  });
  return pids;
}

void Site::ExpectIdle() {
  const Ran audit = SimGpu({"audit"});
  EXPECT_TRUE(audit.Ok()) << audit.Text();
  // The daemon notices freed memory at its next sample.
  std::string held;
  EXPECT_TRUE(Eventually([&] {
    held.clear();
    for (const api::GpuView& gpu : Gpus()) {
      if (gpu.claimed_mib != 0 || gpu.used_mib != 0 || !gpu.tasks.empty()) {
        held += "GPU " + std::to_string(gpu.index) + ": claimed " +
                std::to_string(gpu.claimed_mib) + " MiB, used " + std::to_string(gpu.used_mib) +
                " MiB, " + std::to_string(gpu.tasks.size()) + " tasks\n";
      }
    }
    return held.empty();
  })) << held;
}

// ---- gated tasks ----

Gated::Gated(const Site& site, const std::string& name)
    : bell_(site.out_dir() + "/" + name + ".bell"), gate_(site.out_dir() + "/" + name + ".gate") {}

std::uint64_t Gated::Submit(const Site& site, const std::string& then,
                            std::vector<std::string> options) const {
  options.insert(options.end(), {"--", "/bin/sh", "-c",
                                 "echo $CARMA_ATTEMPT > " + bell_.path() + "; read go < " +
                                     gate_.path() + "; " + then});
  return site.Submit(std::move(options));
}

std::optional<std::string> Gated::Hear(std::chrono::milliseconds deadline) {
  return bell_.Hear(deadline);
}

void Gated::Open() const {
  WriteText(gate_.path(), "go\n", 0666);
}

}  // namespace carma::system_test
