// carma-shim ATTEMPT_DIR: started by carmad for each attempt of a task; see task/shim/shim.h.
// carma-shim --guard: started by a shim whose task runs in a container; see
// task/shim/container_guard.h.
// carma-shim --mps …: started by carmad to run MPS's control program as a user; see
// task/mps/mps_child.h.
// carma-notify, a link to carma-shim: started by carmad for each notice; see task/notify/send.h.
#include "task/shim/shim.h"

#include <cstdio>
#include <string_view>

#include "base/standard_streams.h"
#include "task/mps/mps_child.h"
#include "task/notify/send.h"
#include "task/shim/container_guard.h"

namespace {

int Notify(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("carma-notify " CARMA_VERSION);
    return 0;
  }
  if (argc != 1) {
    std::fputs("carma-notify is started by carmad and reads what to send from standard input\n",
               stderr);
    return 2;
  }
  return carma::task::RunNotify();
}

}  // namespace

int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  if (std::string_view(argv[0]).ends_with("carma-notify")) return Notify(argc, argv);
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("carma-shim " CARMA_VERSION);
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--guard") return carma::task::RunGuard();
  if (argc >= 2 && std::string_view(argv[1]) == "--mps")
    return carma::task::RunMpsChild({argv + 2, argv + argc});
  if (argc != 2 || argv[1][0] != '/') {
    std::fputs("carma-shim is started by carmad; usage: carma-shim ATTEMPT_DIR (absolute)\n",
               stderr);
    return 2;
  }
  return carma::task::RunShim(argv[1]);
}
