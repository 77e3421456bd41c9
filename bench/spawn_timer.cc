// Measures how long whole programs take, from spawn to exit, one after the other and without a
// shell.
//
//   spawn_timer RUNS ROUNDS COMMAND [ARG…] [:: COMMAND [ARG…]]…
//
// Each round runs every command RUNS times, so that a change in the machine's load affects all
// commands. Prints one line per command, in milliseconds:
//   p50 p95 p99 lowest-p50-of-a-round highest-p50-of-a-round
#include <algorithm>
#include <chrono>
#include <string_view>

#include "bench/percentile.h"
#include "bench/spawn.h"

namespace carma::bench {
namespace {

struct Timed {
  Command command;
  std::vector<double> all_ms{};
  std::vector<double> round_p50_ms{};
};

double RunOnceMs(const Command& command) {
  const auto began = std::chrono::steady_clock::now();
  AwaitSuccess(Spawn(command), command);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
      .count();
}

void Round(Timed& timed, int runs) {
  std::vector<double> round_ms;
  for (int i = 0; i < runs; ++i) round_ms.push_back(RunOnceMs(timed.command));
  timed.round_p50_ms.push_back(Percentile(round_ms, 0.5));
  timed.all_ms.insert(timed.all_ms.end(), round_ms.begin(), round_ms.end());
}

void Print(const Timed& timed) {
  const auto [low, high] =
      std::minmax_element(timed.round_p50_ms.begin(), timed.round_p50_ms.end());
  std::printf("%.3f %.3f %.3f %.3f %.3f\n", Percentile(timed.all_ms, 0.5),
              Percentile(timed.all_ms, 0.95), Percentile(timed.all_ms, 0.99), *low, *high);
}

int Main(const std::vector<std::string>& args) {
  const int runs = args.size() > 2 ? std::atoi(args[0].c_str()) : 0;
  const int rounds = args.size() > 2 ? std::atoi(args[1].c_str()) : 0;
  std::vector<Timed> programs(1);
  for (std::size_t i = 2; i < args.size(); ++i) {
    if (args[i] == "::") {
      programs.emplace_back();
    } else {
      programs.back().command.push_back(args[i]);
    }
  }
  const bool complete = std::none_of(programs.begin(), programs.end(),
                                     [](const Timed& each) { return each.command.empty(); });
  if (runs < 1 || rounds < 1 || !complete) {
    std::fputs("usage: spawn_timer RUNS ROUNDS COMMAND [ARG…] [:: COMMAND [ARG…]]…\n", stderr);
    return 2;
  }
  for (int round = 0; round < rounds; ++round) {
    for (Timed& timed : programs) Round(timed, runs);
  }
  for (const Timed& timed : programs) Print(timed);
  return 0;
}

}  // namespace
}  // namespace carma::bench

int main(int argc, char** argv) {
  return carma::bench::Main({argv + 1, argv + argc});
}
