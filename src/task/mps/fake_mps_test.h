// A stand-in for NVIDIA's MPS control program: a shell script whose behaviour a test controls
// through files in the pipe directory.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/file.h"
#include "base/text.h"
#include "task/mps/mps_control.h"

namespace carma::task {

// These files control the script:
//   help: the output of -h. refuse, refuse-once: -d fails.
//   ends: -d succeeds, but its daemon exits immediately. late: the daemon runs, but -d hangs.
//   hang: commands hang. no-server: start_server does nothing.
//   status: the output of get_server_status. clients: the list of clients.
//   ready: the line in control.log about a new server.
//   reason: the line in server.log about a server that does not start.
//   no-partitions: sm_partition fails. partitions: existing ones; the GPU has 27 chunks of 4 SMs.
//   terminate: the output of terminate_client.
// The script records its input in the files `terminated` and `asked`, and its environment in
// `variables`. The daemon is a Python process that only holds the lock; -d returns once the daemon
// holds the lock.
inline constexpr char kFakeMpsScript[] = R"sh(#!/bin/sh
P=$CUDA_MPS_PIPE_DIRECTORY
L=$CUDA_MPS_LOG_DIRECTORY
echo "$@" >> "$P/runs"
if [ "$1" = -h ]; then cat "$P/help" 2> /dev/null; exit 0; fi
S=$2
log() { echo "[2026-01-01 00:00:00.000 Fake $$] $2" >> "$L/$1.log"; }
if [ "$1" = -d ]; then
  if [ -e "$P/refuse" ]; then echo "no MPS on this device"; exit 1; fi
  if rm "$P/refuse-once" 2> /dev/null; then echo "not just now"; exit 1; fi
  env | sort > "$P/variables"
  log control "daemon of $(id -u)"
  if [ -e "$P/ends" ]; then log control "no room for it"; exit 0; fi
  exec python3 -c '
import fcntl, os, sys, time
pipes = sys.argv[1]
ready, done = os.pipe()
if os.fork():
    os.read(ready, 1)
    if os.path.exists(pipes + "/late"): time.sleep(1000)
    os._exit(0)
os.setsid()
for name in ("control", "control_privileged", "log"): open(pipes + "/" + name, "w")
lock = open(pipes + "/control_lock", "a")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
with open(pipes + "/daemon", "w") as file: file.write("%d\n" % os.getpid())
os.write(done, b"!")
for fd in (0, 1, 2): os.close(fd)
time.sleep(1000)' "$P" $S < /dev/null
fi
while read -r command a b; do
  echo "$command $a $b" >> "$P/asked"
  while [ -e "$P/hang" ]; do sleep 1; done
  case $command in
    start_server)
      if [ -e "$P/no-server" ]; then
        if [ -e "$P/reason" ]; then log server Startup; log server "$(cat "$P/reason")"; fi
        log control "Server 1 exited with status 1"
        continue
      fi
      setsid sleep 1000 > /dev/null 2>&1 < /dev/null &
      echo $! > "$P/server"
      log control "NEW SERVER $!: $(cat "$P/ready" 2> /dev/null || echo Ready)";;
    get_server_list) cat "$P/server" 2> /dev/null;;
    get_server_status) cat "$P/status" 2> /dev/null || echo ACTIVE;;
    get_client_list) cat "$P/clients" 2> /dev/null;;
    lspart) used=$(awk '{u += $4} END {print u + 0}' "$P/partitions" 2> /dev/null)
            used=${used:-0}
            echo "GPU Partition free used free used clients"
            echo "chunks chunks SM SM"
            echo "GPU-8f3a91c2 - $((27 - used)) $used $((108 - 4 * used)) $((4 * used)) -"
            cat "$P/partitions" 2> /dev/null;;
    sm_partition)
      rest=${b#* }
      if [ "$a" = rm ]; then
        grep -vF " $rest " "$P/partitions" > "$P/rest"; mv "$P/rest" "$P/partitions"; continue
      fi
      used=$(awk '{u += $4} END {print u + 0}' "$P/partitions" 2> /dev/null)
      if [ -e "$P/no-partitions" ] || [ $((${used:-0} + rest)) -gt 27 ]; then
        echo "Failed to fulfill the requested SM partition of $rest chunks, error" \
             "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"
        continue
      fi
      echo x >> "$P/made"
      id=D$(wc -l < "$P/made")/x
      echo "GPU-8f3a91c2 $id - $rest - $((4 * rest)) No" >> "$P/partitions"
      echo "Partition ${b%% *}/$id created";;
    terminate_client) echo "$a $b" >> "$P/terminated"; cat "$P/terminate" 2> /dev/null;;
    quit) kill $(cat "$P/daemon" "$P/server" 2> /dev/null)
          rm -f "$P/server" "$P/daemon";;
  esac
done
exit 0
)sh";

class FakeMps {
 public:
  FakeMps() {
    root_ = "/tmp/carma-mps-test-XXXXXX";
    CARMA_CHECK(::mkdtemp(root_.data()) != nullptr, "no folder for the test");
    ::chmod(root_.c_str(), 0755);
    std::ofstream(root_ + "/control") << kFakeMpsScript;
    ::chmod((root_ + "/control").c_str(), 0755);
    setup.shim_path = base::ExecutableDir() + "/carma-shim";
    setup.program = root_ + "/control";
    setup.dir = root_ + "/mps";
    setup.environment = {{"EXTRA", "1"}};
    id = {::getuid(), ::getgid(), "GPU-8f3a91c2-0000-1111-2222-333344445555"};
  }
  ~FakeMps() {
    for (const char* file : {"/daemon", "/server"}) {
      const auto pid = base::ParseInt(base::Trim(Read(file)));
      if (pid && *pid > 1) ::kill(static_cast<pid_t>(*pid), SIGKILL);
    }
    (void)!::system(("rm -rf " + root_).c_str());
  }
  FakeMps(const FakeMps&) = delete;
  FakeMps& operator=(const FakeMps&) = delete;

  std::string Pipes() const { return MpsPipeDir(setup.dir, id); }
  std::string Logs() const { return MpsLogDir(setup.dir, id); }
  std::string Read(const std::string& file) const {
    return base::ReadFile(Pipes() + file, 1 << 20).value_or("");
  }
  void Write(const std::string& file, const std::string& text = "") const {
    CARMA_CHECK(base::MakeDirs(Pipes(), 0700), "folders");
    ::chmod(setup.dir.c_str(), 0755);
    std::ofstream(Pipes() + file) << text;
  }
  void Remove(const std::string& file) const { ::unlink((Pipes() + file).c_str()); }
  const std::string& root() const { return root_; }

  MpsSetup setup;
  MpsServerId id;

 private:
  std::string root_;
};

}  // namespace carma::task
