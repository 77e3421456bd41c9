#include "task/process/bounded_run.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/pidfd.h"
#include "base/process_id.h"
#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::chrono::seconds kRunPatience{60};

// Writes too much, so it is killed. Its tracer delays its exit until the FIFO `go` is opened for
// writing, as if it hung in the kernel.
constexpr char kSurvivor[] = R"py(
import ctypes, os, signal, sys
folder, main = sys.argv[1], os.getpid()
libc = ctypes.CDLL(None)
ANY, PR_SET_PTRACER = ctypes.c_ulong(2**64 - 1), 0x59616d61
libc.prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
told, tell = os.pipe()
os.mkfifo(folder + "/go")
if os.fork() == 0:
    os.setsid()
    PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 0x4206, ctypes.c_void_p(0x40)
    traced = libc.ptrace(PTRACE_SEIZE, main, None, PTRACE_O_TRACEEXIT) == 0
    os.write(tell, b"y" if traced else b"n")
    if traced: open(folder + "/go").close()
    os._exit(0)
if os.read(told, 1) == b"y":
    with open(folder + "/pid", "w") as file: file.write(str(main))
    os.ftruncate(1, 65 << 20)
    signal.pause()
)py";

TEST(RunBounded, ReapsAProgramThatSurvivedItsKill) {
  std::string folder = "/tmp/carma-run-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const Result<RunResult> ran =
      RunBounded({.words = {"python3", "-c", kSurvivor, folder}, .limit = kRunPatience});
  const auto pid = base::ParseInt(base::ReadFile(folder + "/pid", 100).value_or(""));
  if (ran && !pid) GTEST_SKIP() << "no ptrace(): " << ran->errors;
  ASSERT_TRUE(ran && pid);
  EXPECT_TRUE(ran->flood);
  const base::UniqueFd survivor = base::OpenPidfd(static_cast<pid_t>(*pid));
  ASSERT_TRUE(base::UniqueFd(::open((folder + "/go").c_str(), O_WRONLY | O_CLOEXEC)));
  pollfd end{survivor.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&end, 1, static_cast<int>(kRunPatience / std::chrono::milliseconds(1))), 1);
  EXPECT_TRUE(RunBounded({.words = {"/bin/true"}}));
  EXPECT_FALSE(base::ReadProcessStat(static_cast<pid_t>(*pid))) << "it is still a zombie";
  (void)!::system(("rm -rf " + folder).c_str());
}

}  // namespace
}  // namespace carma::task
