// A complete CARMA installation for one test, with simulated GPUs, a real daemon and real tasks, in
// its own folder.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "api/gpu_view.h"
#include "api/http.h"
#include "api/status_view.h"
#include "api/task_view.h"
#include "tests/process.h"

namespace carma::system_test {

// The full path of a program that was built with this test, such as "carmad".
std::string Program(const std::string& name);
bool IsRoot();
// The unprivileged user "nobody", never the user running the test.
uid_t OtherUser();

// A folder that every user may enter and write to. Removed by the destructor.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void WriteText(const std::string& path, const std::string& text, unsigned mode = 0644);
// Returns an empty string if there is no such file.
std::string ReadText(const std::string& path);
// Polls until the condition holds; returns false on timeout. Use this for conditions that trigger
// no event, such as a GPU's health. To wait for a task to end, use Site::Await.
bool Eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds deadline = kDeadline);

// What a simulated training task does, in simulated time.
struct Training {
  std::int64_t memory_mib = 1000;
  double solo_s = 10;
  double sm_active = 0.2;
  std::vector<std::string> more;  // additional arguments
};
std::vector<std::string> SimTask(const Training& training);

struct SiteOptions {
  std::string shape = "2xA100-40GB";
  double time_scale = 1000;
  bool memory_limits = false;  // the driver limits the memory of cgroups
  // Configuration keys and values, such as "policy.mapper" -> "\"lug\"". They are added to the
  // kit's own settings, which suit the time scale.
  std::map<std::string, std::string> settings = {};
};

class Site {
 public:
  // Creates the server and writes the configuration, but does not start the daemon.
  explicit Site(SiteOptions options = {});
  // Cancels all running tasks, stops the daemon, and leaves no process behind.
  ~Site();

  const Folder& folder() const { return folder_; }
  std::string out_dir() const { return folder_ / "out"; }
  std::string state_dir() const { return folder_ / "state"; }
  std::string socket() const { return folder_ / "carmad.sock"; }
  std::string gpus_file() const { return folder_ / "gpus"; }
  std::string config_file() const { return folder_ / "carma.toml"; }
  // The following settings take effect at the next Start().
  void UsePrograms(const std::string& folder) { programs_ = folder; }
  void Set(const std::string& key, const std::string& value);

  // Starts carmad. With wait_gpus, returns once tasks can be submitted; otherwise, once carmad is
  // listening. Fails the test if the daemon exits instead.
  void Start(bool wait_gpus = true, const RunOptions& options = {});
  Child& daemon() { return daemon_; }
  // Sends the signal and waits for the daemon to exit.
  Ran Stop(int signal);
  void Restart(int signal) {
    Stop(signal);
    Start();
  }

  // Runs `carma …` in the folder out_dir() as a client of this daemon.
  Ran Carma(std::vector<std::string> args, RunOptions options = {}) const;
  Child StartCarma(std::vector<std::string> args, RunOptions options = {}) const;
  // Runs `carma submit …` and returns the number of the (first) task. If the submission is refused,
  // fails the test and returns 0.
  std::uint64_t Submit(std::vector<std::string> args, RunOptions options = {}) const;
  // Submits a simulated training task with these options.
  std::uint64_t Train(std::vector<std::string> options, const Training& training) const;

  api::Client& client() { return client_; }
  // Makes a request as another local user (requires root). Returns the daemon's response or error
  // message.
  std::string CallAs(uid_t uid, const std::string& method, const std::string& target,
                     const std::string& body = "") const;
  api::TaskView Task(std::uint64_t id);
  // Waits for the task to end and returns it; fails the test at the deadline.
  api::TaskView Await(std::uint64_t id, std::chrono::seconds deadline = kDeadline);
  // Waits until the task is in this state, and returns the task.
  api::TaskView AwaitState(std::uint64_t id, const std::string& state);
  // Waits until the task reports this reason for waiting, such as "GpuMemory".
  void ExpectWaits(std::uint64_t id, const std::string& reason);
  std::vector<api::GpuView> Gpus();
  api::StatusView Status();
  std::vector<api::EventView> History(std::uint64_t id);
  // The contents of the task's output file.
  std::string Output(std::uint64_t id);

  // Cancels every unfinished task of every user.
  void CancelAll();

  // Runs `carma-simgpu …` on this server.
  Ran SimGpu(std::vector<std::string> args) const;
  // The PIDs of this server's running programs with this name.
  std::vector<pid_t> Processes(const std::string& name) const;
  // Expects that no task holds GPU memory, either on the simulated GPUs or in the daemon's records.
  void ExpectIdle();

 private:
  void WriteConfig() const;

  std::string SharedCarma() const;

  Folder folder_;
  std::map<std::string, std::string> settings_;
  std::string programs_;
  Child daemon_;
  api::Client client_;
};

// A task that reports when it is running and continues when the test lets it.
class Gated {
 public:
  Gated(const Site& site, const std::string& name);
  // then: a command for /bin/sh that runs after the gate, such as "exit 7".
  std::uint64_t Submit(const Site& site, const std::string& then,
                       std::vector<std::string> options = {}) const;
  // Waits for an attempt to reach the gate and returns its number; empty if none does in time.
  std::optional<std::string> Hear(std::chrono::milliseconds deadline = kDeadline);
  // Lets one attempt continue.
  void Open() const;

 private:
  Bell bell_, gate_;
};

}  // namespace carma::system_test
