// Measures the cost of the database: a durable submission, a batch, a page of a long list, a
// restart.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "store/store.h"
#include "store/task_fixture.h"

namespace {

using carma::base::Result;
using carma::store::FinishedTask;
using carma::store::NewTask;
using carma::store::Store;
using carma::store::StoredTask;

constexpr std::uint64_t kFinished = 100'000;

template <class T>
T Must(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "store_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

// A temporary folder in the current folder, because /tmp may be in memory, where durable writes
// cost nothing.
class Folder {
 public:
  Folder() : path_("store_bench-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::exit(1);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void PutAll(Store& store, std::uint64_t first, std::uint64_t count,
            StoredTask (*make)(std::uint64_t, std::size_t), std::size_t environment_bytes) {
  Must(store.Begin());
  for (std::uint64_t id = first; id < first + count; ++id)
    Must(store.PutTask(make(id, environment_bytes)));
  Must(store.Commit());
}

// A database with 100 000 finished and 1 000 queued tasks, shared by the benchmarks that read.
const std::string& LongBooks() {
  static const Folder folder;
  static const bool filled = [] {
    const std::unique_ptr<Store> store = Must(Store::Open(folder.path()));
    PutAll(*store, 1, kFinished, &FinishedTask, 2'000);
    PutAll(*store, kFinished + 1, 1'000, &NewTask, 2'000);
    return true;
  }();
  (void)filled;
  return folder.path();
}

void BM_SubmitOne(benchmark::State& state) {
  const Folder folder;
  const std::unique_ptr<Store> store = Must(Store::Open(folder.path()));
  std::uint64_t id = 1;
  for (auto _ : state) PutAll(*store, id++, 1, &NewTask, 2'000);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SubmitOne)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Writes one task change: the record and an event.
void BM_StateChange(benchmark::State& state) {
  const Folder folder;
  const std::unique_ptr<Store> store = Must(Store::Open(folder.path()));
  PutAll(*store, 1, 1'000, &NewTask, 2'000);
  std::uint64_t id = 0;
  for (auto _ : state) {
    StoredTask task = FinishedTask(id++ % 1'000 + 1);
    Must(store->Begin());
    Must(store->PutRecord(task.record, task.gpu_uuids));
    Must(store->AddEvent({.when = task.record.submitted,
                          .kind = carma::store::EventKind::kState,
                          .task = task.record.id,
                          .what = "running"}));
    Must(store->Commit());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_StateChange)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Submits a durable batch of 200 000 tasks, with small, typical and large environments.
void BM_SubmitBatch(benchmark::State& state) {
  constexpr std::uint64_t kTasks = 200'000;
  const Folder folder;
  const std::unique_ptr<Store> store = Must(Store::Open(folder.path()));
  std::uint64_t id = 1;
  for (auto _ : state) {
    PutAll(*store, id, kTasks, &NewTask, static_cast<std::size_t>(state.range(0)));
    id += kTasks;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kTasks));
}
BENCHMARK(BM_SubmitBatch)
    ->ArgName("environment_bytes")
    ->Arg(200)
    ->Arg(2'000)
    ->Arg(8'000)
    ->Iterations(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_ListPage(benchmark::State& state, const carma::store::TaskFilter& filter) {
  const std::unique_ptr<Store> store = Must(Store::Open(LongBooks()));
  for (auto _ : state) benchmark::DoNotOptimize(Must(store->List(filter)));
}
BENCHMARK_CAPTURE(BM_ListPage, newest, {.limit = 50})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_ListPage, one_user, {.user = "ada", .limit = 50})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_ListPage, rare_state,
                  {.states = {carma::core::TaskState::kFailed}, .limit = 50})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_ListPage, all_states_of_a_user,
                  {.states = {carma::core::TaskState::kSucceeded, carma::core::TaskState::kFailed,
                              carma::core::TaskState::kQueued},
                   .user = "ada",
                   .limit = 50})
    ->Unit(benchmark::kMicrosecond);

void BM_Counts(benchmark::State& state) {
  const std::unique_ptr<Store> store = Must(Store::Open(LongBooks()));
  for (auto _ : state) benchmark::DoNotOptimize(Must(store->Counts()));
}
BENCHMARK(BM_Counts)->Unit(benchmark::kMicrosecond);

// Works like a starting daemon: checks and opens the file, and takes over the 1 000 unfinished
// tasks.
void BM_Restart(benchmark::State& state) {
  LongBooks();
  for (auto _ : state) {
    const std::unique_ptr<Store> store = Must(Store::Open(LongBooks()));
    benchmark::DoNotOptimize(Must(store->Unfinished()));
    benchmark::DoNotOptimize(Must(store->NextId()));
  }
}
BENCHMARK(BM_Restart)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
