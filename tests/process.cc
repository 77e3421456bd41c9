#include "tests/process.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/file.h"

extern char** environ;

namespace carma::system_test {
namespace {

constexpr std::size_t kMaxOutput = 256 << 20;

base::UniqueFd MemoryFile(const char* name, std::string_view content = "") {
  base::UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  EXPECT_TRUE(base::WriteAll(fd.get(), content));
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::string Content(const base::UniqueFd& fd) {
  if (!fd) return "";
  // Reopens the anonymous file, so that the program's own offset does not change.
  const base::UniqueFd again(
      ::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  return base::ReadAll(again.get(), kMaxOutput).value_or("");
}

// Copies the test's own environment without its CARMA_* variables, which could redirect CARMA.
std::vector<std::string> Environment(const std::map<std::string, std::string>& wanted) {
  std::vector<std::string> list;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view line = *each;
    const std::string name(line.substr(0, line.find('=')));
    if (!name.starts_with("CARMA_") && !wanted.contains(name)) list.emplace_back(line);
  }
  for (const auto& [name, value] : wanted) list.push_back(name + "=" + value);
  return list;
}

std::vector<char*> Pointers(std::vector<std::string>& list) {
  std::vector<char*> pointers;
  for (std::string& each : list) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child, where only calls that are safe after fork are allowed.
bool BecomeUser(uid_t uid) {
  const passwd* user = ::getpwuid(uid);
  if (user == nullptr) return false;
  return ::initgroups(user->pw_name, user->pw_gid) == 0 && ::setgid(user->pw_gid) == 0 &&
         ::setuid(uid) == 0;
}

// Returns true if the program can be started, that is, if it is an existing file or is found in
// PATH.
bool IsInstalled(const std::string& program) {
  if (program.find('/') != program.npos)
    return program.front() != '/' || ::access(program.c_str(), F_OK) == 0;
  // execvpe() searches the test's own PATH instead of the one in the new environment.
  const char* path = ::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// The Debian package of a program whose name differs from the package's name.
std::string PackageOf(const std::string& program) {
  static const std::map<std::string, std::string> kPackages = {
      {"nc", "netcat-openbsd"}, {"pgrep", "procps"},     {"pkill", "procps"},
      {"ps", "procps"},         {"script", "bsdutils"},  {"cc", "gcc"},
      {"ip", "iproute2"},       {"mount", "util-linux"}, {"unshare", "util-linux"},
      {"setpriv", "util-linux"}};
  const std::string name = program.substr(program.rfind('/') + 1);
  const auto found = kPackages.find(name);
  return found == kPackages.end() ? name : found->second;
}

[[noreturn]] void Become(char* const* argv, char* const* env, const RunOptions& options, int in,
                         int out, int err) {
  ::setpgid(0, 0);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (options.max_file_bytes) {
    const rlimit limit{*options.max_file_bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  const bool ready = (options.cwd.empty() || ::chdir(options.cwd.c_str()) == 0) &&
                     (!options.uid || BecomeUser(*options.uid));
  // Ensures that a test program that crashes or times out leaves no daemon behind. This must come
  // after switching users, which would clear the setting.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (ready) ::execvpe(argv[0], argv, env);
  ::dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], std::strerror(errno));
  ::_exit(127);
}

}  // namespace

std::string Ran::Text() const {
  std::string text = late          ? "did not exit in time"
                     : signal != 0 ? "signal " + std::to_string(signal)
                                   : "exit code " + std::to_string(code);
  return text + "\nstdout: " + out.substr(0, 4000) + "\nstderr: " + err.substr(0, 4000);
}

Child Child::Start(const std::vector<std::string>& argv, const RunOptions& options) {
  Child child;
  if (!IsInstalled(argv.at(0))) {
    ADD_FAILURE() << "program " << argv[0] << " is missing (apt-get install " << PackageOf(argv[0])
                  << ")";
    return child;
  }
  const base::UniqueFd in = MemoryFile("stdin", options.input);
  child.out_ = MemoryFile("stdout");
  child.err_ = MemoryFile("stderr");
  std::vector<std::string> words = argv, env = Environment(options.environment);
  const std::vector<char*> argv_pointers = Pointers(words), env_pointers = Pointers(env);
  const pid_t pid = ::fork();
  if (pid == 0) {
    Become(argv_pointers.data(), env_pointers.data(), options, in.get(), child.out_.get(),
           child.err_.get());
  }
  if (pid < 0) {
    ADD_FAILURE() << "fork: " << std::strerror(errno);
    return child;
  }
  child.pid_ = pid;
  child.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return child;
}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(out_, other.out_);
  std::swap(err_, other.err_);
  return *this;
}

Child::~Child() {
  if (pid_ <= 0) return;
  Signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::Signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

Ran Child::Wait(std::chrono::milliseconds deadline) {
  Ran ran;
  if (pid_ <= 0) return ran;
  ran.late = !WaitReadable(pidfd_.get(), deadline);
  if (ran.late) Signal(SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  pidfd_.reset();
  if (WIFEXITED(status)) ran.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ran.signal = WTERMSIG(status);
  ran.out = Out();
  ran.err = Err();
  return ran;
}

std::string Child::Out() const {
  return Content(out_);
}
std::string Child::Err() const {
  return Content(err_);
}

Ran RunProgram(const std::vector<std::string>& argv, const RunOptions& options) {
  return Child::Start(argv, options).Wait(options.deadline);
}

std::string CallAsUser(uid_t uid, const std::function<std::string()>& function) {
  const base::UniqueFd out = MemoryFile("returned");
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!BecomeUser(uid)) ::_exit(1);
    ::_exit(base::WriteAll(out.get(), function()) ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid) << std::strerror(errno);
  EXPECT_EQ(status, 0) << "user " << uid << " could not call the function";
  return Content(out);
}

bool WaitReadable(int fd, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

Bell::Bell(std::string path) : path_(std::move(path)) {
  EXPECT_EQ(::mkfifo(path_.c_str(), 0666), 0) << path_;
  ::chmod(path_.c_str(), 0666);
  // Also opened for writing, so that the FIFO reports no end of file between writers.
  fd_.reset(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
}

std::optional<std::string> Bell::Hear(std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    if (const std::size_t at = rest_.find('\n'); at != rest_.npos) {
      std::string line = rest_.substr(0, at);
      rest_.erase(0, at + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !WaitReadable(fd_.get(), left)) return std::nullopt;
    char buffer[4096];
    const ssize_t got = ::read(fd_.get(), buffer, sizeof buffer);
    if (got > 0) rest_.append(buffer, static_cast<std::size_t>(got));
  }
}

Watched::Watched(pid_t pid) : fd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
  EXPECT_TRUE(fd_) << "process " << pid << " is gone already";
}

bool Watched::Ends(std::chrono::milliseconds deadline) const {
  return fd_ && WaitReadable(fd_.get(), deadline);
}

}  // namespace carma::system_test
