// Fills a daemon's state folder with finished tasks: make_books STATE_DIR COUNT
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "store/store.h"
#include "store/task_fixture.h"

namespace carma {
namespace {

// A task that ended yesterday, so that a starting daemon does not delete it as too old.
store::StoredTask FinishedYesterday(std::uint64_t id, base::Time now) {
  store::StoredTask task = store::FinishedTask(id);
  const core::Duration shift = now - std::chrono::hours(24) - task.record.submitted;
  for (auto* when : {&task.record.submitted, &task.record.queued_since}) *when += shift;
  core::Attempt& attempt = task.record.attempt.Edit();
  for (auto* when :
       {&task.record.first_start, &attempt.launched, &attempt.started, &task.record.ended}) {
    if (*when) **when += shift;
  }
  return task;
}

Result<Unit> Fill(const std::string& folder, std::uint64_t count) {
  if (auto made = base::MakeDirs(folder, 0700); !made) return made;
  auto store = store::Store::Open(folder);
  if (!store) return std::unexpected(store.error());
  const base::Time now = base::SystemClock().Now();
  if (auto begun = (*store)->Begin(); !begun) return begun;
  for (std::uint64_t id = 1; id <= count; ++id) {
    if (auto put = (*store)->PutTask(FinishedYesterday(id, now)); !put) return put;
  }
  return (*store)->Commit();
}

}  // namespace
}  // namespace carma

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: make_books STATE_DIR COUNT\n", stderr);
    return 2;
  }
  const auto filled = carma::Fill(argv[1], std::strtoull(argv[2], nullptr, 10));
  if (filled) return 0;
  std::fprintf(stderr, "make_books: %s\n", filled.error().message.c_str());
  return 1;
}
