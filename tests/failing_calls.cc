// An LD_PRELOAD library that counts the calls that create descriptors, threads and processes. Calls
// selected by the test fail, as on a machine that has run out of these resources.
#include "tests/failing_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

namespace {

using carma::system_test::CallOrders;

CallOrders* Orders() {
  static CallOrders* const orders = []() -> CallOrders* {
    const char* path = ::getenv("FAILING_CALLS");
    if (path == nullptr) return nullptr;
    const long fd = ::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* memory = ::mmap(nullptr, sizeof(CallOrders), PROT_READ | PROT_WRITE, MAP_SHARED,
                          static_cast<int>(fd), 0);
    ::syscall(SYS_close, fd);
    return memory == MAP_FAILED ? nullptr : static_cast<CallOrders*>(memory);
  }();
  return orders;
}

bool Fails(const char* name) {
  CallOrders* const orders = Orders();
  if (orders == nullptr) return false;
  const std::int64_t number = ++orders->calls;
  const bool fails = number >= orders->first && number <= orders->last;
  if (fails) ::strncpy(orders->failed, name, sizeof orders->failed - 1);
  return fails;
}

template <class Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// error: what the kernel returns when this kind of call fails.
template <class Function, class... Arguments>
auto Call(const char* name, int error, Function* function, Arguments... arguments) {
  if (Fails(name)) {
    errno = error;
    return decltype(function(arguments...))(-1);
  }
  return Real(function, name)(arguments...);
}

}  // namespace

#define CARMA_MODE_OF(flags)                    \
  mode_t mode = 0;                              \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list list;                               \
    va_start(list, flags);                      \
    mode = va_arg(list, mode_t);                \
    va_end(list);                               \
  }

extern "C" {

int open(const char* path, int flags, ...) {
  CARMA_MODE_OF(flags)
  return Call("open", EMFILE, &::open, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  CARMA_MODE_OF(flags)
  return Call("open64", EMFILE, &::open64, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  CARMA_MODE_OF(flags)
  return Call("openat", EMFILE, &::openat, folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  CARMA_MODE_OF(flags)
  return Call("openat64", EMFILE, &::openat64, folder, path, flags, mode);
}
int pipe(int ends[2]) noexcept {
  return Call("pipe", EMFILE, &::pipe, ends);
}
int pipe2(int ends[2], int flags) noexcept {
  return Call("pipe2", EMFILE, &::pipe2, ends, flags);
}
int dup(int fd) noexcept {
  return Call("dup", EMFILE, &::dup, fd);
}
int socket(int domain, int type, int protocol) noexcept {
  return Call("socket", EMFILE, &::socket, domain, type, protocol);
}
int socketpair(int domain, int type, int protocol, int ends[2]) noexcept {
  return Call("socketpair", EMFILE, &::socketpair, domain, type, protocol, ends);
}
int accept(int fd, sockaddr* address, socklen_t* length) {
  return Call("accept", EMFILE, &::accept, fd, address, length);
}
int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return Call("accept4", ENFILE, &::accept4, fd, address, length, flags);
}
int memfd_create(const char* name, unsigned flags) noexcept {
  return Call("memfd_create", ENOMEM, &::memfd_create, name, flags);
}
int eventfd(unsigned count, int flags) noexcept {
  return Call("eventfd", EMFILE, &::eventfd, count, flags);
}
int epoll_create(int size) noexcept {
  return Call("epoll_create", EMFILE, &::epoll_create, size);
}
int epoll_create1(int flags) noexcept {
  return Call("epoll_create1", EMFILE, &::epoll_create1, flags);
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  // Only adding an entry needs memory, so the other operations never fail.
  if (operation != EPOLL_CTL_ADD)
    return Real(&::epoll_ctl, "epoll_ctl")(epoll, operation, fd, event);
  return Call("epoll_ctl", ENOMEM, &::epoll_ctl, epoll, operation, fd, event);
}
int timerfd_create(int clock, int flags) noexcept {
  return Call("timerfd_create", EMFILE, &::timerfd_create, clock, flags);
}
int signalfd(int fd, const sigset_t* mask, int flags) noexcept {
  return Call("signalfd", EMFILE, &::signalfd, fd, mask, flags);
}
pid_t fork() noexcept {
  return Call("fork", EAGAIN, &::fork);
}
int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const argv[], char* const env[]) {
  if (Fails("posix_spawn")) return EAGAIN;
  return Real(&::posix_spawn, "posix_spawn")(pid, path, actions, attributes, argv, env);
}
int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const argv[], char* const env[]) {
  if (Fails("posix_spawnp")) return EAGAIN;
  return Real(&::posix_spawnp, "posix_spawnp")(pid, file, actions, attributes, argv, env);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  if (Fails("pthread_create")) return EAGAIN;
  return Real(&::pthread_create, "pthread_create")(thread, attributes, run, argument);
}
// Intercepts pidfd_open and clone3, which programs call through syscall().
long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  const bool gives = number == SYS_pidfd_open || number == SYS_clone3;
  if (gives && Fails(number == SYS_clone3 ? "clone3" : "pidfd_open")) {
    errno = number == SYS_clone3 ? EAGAIN : EMFILE;
    return -1;
  }
  return Real(&::syscall, "syscall")(number, words[0], words[1], words[2], words[3], words[4],
                                     words[5]);
}

}  // extern "C"
