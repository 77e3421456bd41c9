// Measures one durable write on this disk, without CARMA, as a lower bound for any submission.
//
//   sync_timer RUNS FILE
//
// Overwrites 40 KiB of FILE and waits for fdatasync, RUNS times. Prints milliseconds in the format
// of spawn_timer for a single round: p50 p95 p99 p50 p50
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "bench/percentile.h"

namespace carma::bench {
namespace {

using std::chrono::steady_clock;

// Roughly what one submission adds to the database's log.
constexpr std::size_t kBytes = 40 << 10;

int Main(int runs, const char* path) {
  const base::UniqueFd fd(::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::string data(kBytes, 'x');
  std::vector<double> ms;
  // The first write gives the file its final length.
  for (int i = -1; i < runs; ++i) {
    const auto began = steady_clock::now();
    if (::pwrite(fd.get(), data.data(), data.size(), 0) != static_cast<ssize_t>(data.size()) ||
        ::fdatasync(fd.get()) != 0) {
      std::perror(path);
      return 1;
    }
    if (i >= 0)
      ms.push_back(std::chrono::duration<double, std::milli>(steady_clock::now() - began).count());
  }
  const double p50 = Percentile(ms, 0.5);
  std::printf("%.3f %.3f %.3f %.3f %.3f\n", p50, Percentile(ms, 0.95), Percentile(ms, 0.99), p50,
              p50);
  return 0;
}

}  // namespace
}  // namespace carma::bench

int main(int argc, char** argv) {
  const int runs = argc == 3 ? std::atoi(argv[1]) : 0;
  if (runs > 0) return carma::bench::Main(runs, argv[2]);
  std::fputs("usage: sync_timer RUNS FILE\n", stderr);
  return 2;
}
