// Functions that this machine's libstdc++ and our own code call, but that the C libraries of old
// distributions lack or provide under an older version. They are linked in if CARMA_OLD_LIBC is
// set. The programs then need glibc 2.28 or newer, and do not use the versions in a newer glibc.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The oldest glibc symbol version for this architecture.
#if defined(__x86_64__)
#define CARMA_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define CARMA_FIRST_GLIBC "GLIBC_2.17"
#else
#error "packaging/old_libc.cc: the first glibc of this machine is not known"
#endif

// In glibc 2.29, these functions have new versions without the old error handling.
// cmake/carma.cmake makes the linker replace pow with __wrap_pow.
#define CARMA_OLD_FUNCTION(name, parameters, arguments)                \
  double carma_old_##name parameters;                                  \
  __asm__(".symver carma_old_" #name "," #name "@" CARMA_FIRST_GLIBC); \
  double __wrap_##name parameters noexcept {                           \
    return carma_old_##name arguments;                                 \
  }

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* result;
};

// Callback for dl_iterate_phdr; returns 1 to stop the search.
int LookInto(dl_phdr_info* object, size_t, void* data) {
  const Search& search = *static_cast<Search*>(data);
  uintptr_t low = UINTPTR_MAX;
  uintptr_t high = 0;
  void* frames = nullptr;
  bool inside = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    const uintptr_t end = begin + part.p_memsz;
    if (part.p_type == PT_GNU_EH_FRAME) frames = reinterpret_cast<void*>(begin);
    if (part.p_type != PT_LOAD) continue;
    if (begin < low) low = begin;
    if (end > high) high = end;
    inside = inside || (search.address >= begin && search.address < end);
  }
  if (!inside || frames == nullptr) return 0;
  ::memset(search.result, 0, sizeof *search.result);
  search.result->dlfo_map_start = reinterpret_cast<void*>(low);
  search.result->dlfo_map_end = reinterpret_cast<void*>(high);
  search.result->dlfo_eh_frame = frames;
  return 1;
}

// Calls `act` for each open descriptor from `first` to `last`. Returns false if the descriptors
// cannot be listed.
template <class Act>
bool ForEachDescriptor(unsigned first, unsigned last, Act act) {
  DIR* open_files = ::opendir("/proc/self/fd");
  if (open_files == nullptr) return false;
  const int own = ::dirfd(open_files);
  while (const dirent* entry = ::readdir(open_files)) {
    char* end = nullptr;
    const unsigned long number = ::strtoul(entry->d_name, &end, 10);
    if (end == entry->d_name || number < first || number > last) continue;
    if (static_cast<int>(number) != own) act(static_cast<int>(number));
  }
  ::closedir(open_files);
  return true;
}

// Returns the C library's own function, or null if this C library does not have it.
template <class Function>
Function* Newer(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// The working directory for the program that this thread spawns with these file actions.
struct StartFolder {
  const posix_spawn_file_actions_t* actions = nullptr;
  char path[4096] = {};
};
thread_local StartFolder start_folder;

}  // namespace

extern "C" {

CARMA_OLD_FUNCTION(exp, (double x), (x))
CARMA_OLD_FUNCTION(exp2, (double x), (x))
CARMA_OLD_FUNCTION(log, (double x), (x))
CARMA_OLD_FUNCTION(log2, (double x), (x))
CARMA_OLD_FUNCTION(pow, (double x, double y), (x, y))

// glibc 2.29.
using AddFolder = int(posix_spawn_file_actions_t*, const char*);
int __wrap_posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t* actions,
                                                const char* path) {
  if (AddFolder* const newer = Newer<AddFolder>("posix_spawn_file_actions_addchdir_np"))
    return newer(actions, path);
  if (::strlen(path) >= sizeof start_folder.path) return ENAMETOOLONG;
  start_folder.actions = actions;
  ::strcpy(start_folder.path, path);
  return 0;
}
// Used only if the library has no such action. Gives the thread its own working directory and
// changes to the folder for the duration of the call.
int __real_posix_spawnp(pid_t*, const char*, const posix_spawn_file_actions_t*,
                        const posix_spawnattr_t*, char* const[], char* const[]);
int __wrap_posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                        const posix_spawnattr_t* attributes, char* const words[],
                        char* const environment[]) {
  const auto spawn = [&] {
    return __real_posix_spawnp(pid, file, actions, attributes, words, environment);
  };
  if (actions == nullptr || start_folder.actions != actions) return spawn();
  start_folder.actions = nullptr;
  if (::unshare(CLONE_FS) != 0) return errno;
  const int here = ::open(".", O_PATH | O_CLOEXEC);
  if (here < 0) return errno;
  int error = ::chdir(start_folder.path) == 0 ? 0 : errno;
  if (error == 0) error = spawn();
  if (::fchdir(here) != 0 && error == 0) error = errno;
  ::close(here);
  return error;
}

// glibc 2.30.
pid_t gettid() noexcept {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

// New in glibc 2.30. Condition variables of older versions wait on the wall clock, so a wait on the
// monotonic clock is converted to a wait of the same length.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  if (clock == CLOCK_REALTIME) return ::pthread_cond_timedwait(condition, mutex, until);
  constexpr long kSecond = 1'000'000'000;
  timespec now{};
  timespec end{};
  ::clock_gettime(clock, &now);
  ::clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += until->tv_sec - now.tv_sec;
  end.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (end.tv_nsec >= kSecond) {
    end.tv_nsec -= kSecond;
    ++end.tv_sec;
  } else if (end.tv_nsec < 0) {
    end.tv_nsec += kSecond;
    --end.tv_sec;
  }
  return ::pthread_cond_timedwait(condition, mutex, &end);
}

// New in glibc 2.32. If false, the reference counts of shared pointers always use atomic
// instructions.
extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// glibc 2.32.
const char* sigabbrev_np(int number) noexcept {
  switch (number) {
#define CARMA_SIGNAL(name) \
  case SIG##name:          \
    return #name;
    CARMA_SIGNAL(HUP)
    CARMA_SIGNAL(INT)
    CARMA_SIGNAL(QUIT)
    CARMA_SIGNAL(ILL)
    CARMA_SIGNAL(TRAP)
    CARMA_SIGNAL(ABRT)
    CARMA_SIGNAL(BUS)
    CARMA_SIGNAL(FPE)
    CARMA_SIGNAL(KILL)
    CARMA_SIGNAL(USR1)
    CARMA_SIGNAL(SEGV)
    CARMA_SIGNAL(USR2)
    CARMA_SIGNAL(PIPE)
    CARMA_SIGNAL(ALRM)
    CARMA_SIGNAL(TERM)
    CARMA_SIGNAL(STKFLT)
    CARMA_SIGNAL(CHLD)
    CARMA_SIGNAL(CONT)
    CARMA_SIGNAL(STOP)
    CARMA_SIGNAL(TSTP)
    CARMA_SIGNAL(TTIN)
    CARMA_SIGNAL(TTOU)
    CARMA_SIGNAL(URG)
    CARMA_SIGNAL(XCPU)
    CARMA_SIGNAL(XFSZ)
    CARMA_SIGNAL(VTALRM)
    CARMA_SIGNAL(PROF)
    CARMA_SIGNAL(WINCH)
    CARMA_SIGNAL(POLL)
    CARMA_SIGNAL(PWR)
    CARMA_SIGNAL(SYS)
#undef CARMA_SIGNAL
    default:
      return nullptr;
  }
}

// New in glibc 2.34. Does not cover descriptors opened after this call, but all of ours are closed
// on exec.
using CloseFrom = int(posix_spawn_file_actions_t*, int);
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions,
                                             int first) noexcept {
  if (CloseFrom* const newer = Newer<CloseFrom>("posix_spawn_file_actions_addclosefrom_np"))
    return newer(actions, first);
  int error = 0;
  const bool listed = ForEachDescriptor(static_cast<unsigned>(first), ~0U, [&](int number) {
    if (error == 0) error = ::posix_spawn_file_actions_addclose(actions, number);
  });
  return listed ? error : ENOSYS;
}

// New in glibc 2.34. Kernels before 5.9 lack the system call.
int close_range(unsigned first, unsigned last, int flags) noexcept {
  if (::syscall(SYS_close_range, first, last, flags) == 0) return 0;
  if (errno != ENOSYS || flags != 0) return -1;
  return ForEachDescriptor(first, last, [](int number) { ::close(number); }) ? 0 : -1;
}

// New in glibc 2.35. Finds the exception-handling tables for an address; returns 0 if found.
int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), result};
  return ::dl_iterate_phdr(&LookInto, &search) == 1 ? 0 : -1;
}

// glibc 2.36.
uint32_t arc4random() noexcept {
  uint32_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}
}
