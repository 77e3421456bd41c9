// Measures the time from a daemon's spawn until it responds to a request on its socket.
//
//   start_timer RUNS SOCKET COMMAND [ARG…]
//
// Stops the daemon with SIGTERM after each start. Prints, in milliseconds: median lowest highest.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"
#include "bench/spawn.h"

namespace carma::bench {
namespace {

using std::chrono::steady_clock;

constexpr auto kGiveUp = std::chrono::seconds(60);
constexpr auto kBetweenTries = std::chrono::microseconds(500);
// carmad responds to this only after it has read its database and found the GPUs.
constexpr std::string_view kRequest = "GET /v1/tasks?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr std::string_view kGood = "HTTP/1.1 200";

bool Answers(const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket.data(),
              std::min(socket.size(), sizeof address.sun_path - 1));
  const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return false;
  if (::send(fd.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) return false;
  char answer[kGood.size()];
  return ::recv(fd.get(), answer, sizeof answer, MSG_WAITALL) ==
             static_cast<ssize_t>(sizeof answer) &&
         std::string_view(answer, sizeof answer) == kGood;
}

double StartOnceMs(const std::string& socket, const Command& command) {
  const auto began = steady_clock::now();
  const pid_t pid = Spawn(command);
  while (!Answers(socket)) {
    if (steady_clock::now() - began > kGiveUp || ::waitpid(pid, nullptr, WNOHANG) == pid) {
      std::fprintf(stderr, "start_timer: %s does not respond at %s\n", command[0].c_str(),
                   socket.c_str());
      std::exit(1);
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  const std::chrono::duration<double, std::milli> spent = steady_clock::now() - began;
  ::kill(pid, SIGTERM);
  AwaitSuccess(pid, command);
  return spent.count();
}

int Main(const std::vector<std::string>& args) {
  const int runs = args.size() > 2 ? std::atoi(args[0].c_str()) : 0;
  if (runs < 1) {
    std::fputs("usage: start_timer RUNS SOCKET COMMAND [ARG…]\n", stderr);
    return 2;
  }
  const Command command(args.begin() + 2, args.end());
  std::vector<double> ms;
  for (int i = 0; i < runs; ++i) ms.push_back(StartOnceMs(args[1], command));
  std::sort(ms.begin(), ms.end());
  std::printf("%.1f %.1f %.1f\n", ms[ms.size() / 2], ms.front(), ms.back());
  return 0;
}

}  // namespace
}  // namespace carma::bench

int main(int argc, char** argv) {
  return carma::bench::Main({argv + 1, argv + argc});
}
