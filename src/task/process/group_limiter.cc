#include "task/process/group_limiter.h"

#include <utility>

#include "base/text.h"
#include "task/process/bounded_run.h"

namespace carma::task {
namespace {

constexpr std::size_t kWordsOfALimit = 3;

}  // namespace

std::vector<std::string> LimitWords(const std::vector<GpuMemoryLimit>& limits) {
  std::vector<std::string> words;
  for (const GpuMemoryLimit& limit : limits) {
    words.push_back(limit.uuid);
    words.push_back(std::to_string(limit.soft_mib));
    words.push_back(std::to_string(limit.hard_mib));
  }
  return words;
}

std::vector<std::string> HardLimitWords(const std::vector<std::string>& words) {
  std::vector<std::string> hard = words;
  for (std::size_t i = 1; i < hard.size(); i += kWordsOfALimit) hard[i] = "0";
  return hard;
}

std::vector<std::string> NoLimitWords(const std::vector<std::string>& words) {
  std::vector<GpuMemoryLimit> none;
  for (std::size_t i = 0; i + kWordsOfALimit <= words.size(); i += kWordsOfALimit)
    none.push_back({words[i], 0, 0});
  return LimitWords(none);
}

Result<Unit> LimitGpuMemory(const std::vector<std::string>& limiter, const std::string& group,
                            const std::vector<std::string>& words,
                            std::chrono::milliseconds patience) {
  std::vector<std::string> argv = limiter;
  argv.push_back(group);
  argv.insert(argv.end(), words.begin(), words.end());
  const Result<RunResult> ran =
      RunBounded({.words = std::move(argv), .folder = "", .limit = patience});
  if (!ran) return Unavailable(ran.error().message);
  if (ran->late) return Unavailable("the driver does not respond");
  if (ran->signal == 0 && ran->exit_code == 0) return Unit{};
  const std::string_view why = base::Trim(ran->errors);
  return Unavailable(why.empty() ? "the program that sets the limits failed" : std::string(why));
}

}  // namespace carma::task
