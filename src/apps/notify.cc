// carma-notify: started by carmad for each notice; see task/notify/send.h.
#include <cstdio>
#include <string_view>

#include "task/notify/send.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("carma-notify " CARMA_VERSION);
    return 0;
  }
  if (argc != 1) {
    std::fputs("carma-notify is started by carmad, which tells it on standard input what to send\n",
               stderr);
    return 2;
  }
  return carma::task::RunNotify();
}
