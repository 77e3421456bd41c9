#include "core/ledger.h"

#include <algorithm>
#include <utility>

#include "base/result.h"

namespace carma::core {
namespace {

auto Find(std::vector<Resident>& residents, TaskId task) {
  return std::lower_bound(residents.begin(), residents.end(), task,
                          [](const Resident& each, TaskId id) { return each.task < id; });
}

}  // namespace

void Ledger::Open(const std::vector<std::int64_t>& usable_mib) {
  books_.clear();
  for (const std::int64_t usable : usable_mib) books_.push_back({.usable_mib = usable});
}

void Ledger::Claim(GpuIndex gpu, const Resident& newcomer) {
  std::vector<Resident>& residents = books_[Number(gpu)].residents;
  const auto at = Find(residents, newcomer.task);
  CARMA_CHECK(at == residents.end() || at->task != newcomer.task,
              "a task claims the same GPU twice");
  residents.insert(at, newcomer);
  gpus_of_[newcomer.task].push_back(gpu);
}

void Ledger::Release(TaskId task) {
  const auto held = gpus_of_.find(task);
  if (held == gpus_of_.end()) return;
  for (const GpuIndex gpu : held->second) {
    Book& book = books_[Number(gpu)];
    const auto at = Find(book.residents, task);
    book.used_mib = std::max<std::int64_t>(0, book.used_mib - at->observed_mib);
    book.residents.erase(at);
  }
  gpus_of_.erase(held);
}

void Ledger::Observe(GpuIndex gpu, const GpuSample& sample) {
  Book& book = books_[Number(gpu)];
  book.used_mib = sample.used_mib;
  book.attributed = sample.attributed;
  std::int64_t ours_mib = 0;
  for (Resident& resident : book.residents) resident.observed_mib = 0;
  for (const auto& [task, mib] : sample.tasks_mib) {
    const auto at = Find(book.residents, task);
    if (at == book.residents.end() || at->task != task) continue;
    at->observed_mib = mib;
    ours_mib += mib;
    if (mib > 0 && !at->first_seen) at->first_seen = sample.taken;
  }
  if (sample.attributed) {
    book.known_foreign_mib = std::max<std::int64_t>(0, sample.used_mib - ours_mib);
  } else if (sample.foreign_processes == 0) {
    book.known_foreign_mib = 0;
  }
}

std::span<const Resident> Ledger::ResidentsOf(GpuIndex gpu) const {
  return books_[Number(gpu)].residents;
}

Account Ledger::AccountOf(GpuIndex gpu) const {
  const Book& book = books_[Number(gpu)];
  Account account;
  std::int64_t promised_mib = 0;
  for (const Resident& resident : book.residents) {
    account.claimed_mib += resident.claim_mib;
    promised_mib += std::max(resident.claim_mib, resident.observed_mib);
  }
  account.foreign_mib = book.known_foreign_mib;
  const std::int64_t taken_mib = promised_mib + book.known_foreign_mib;
  const std::int64_t held_mib = book.attributed ? taken_mib : std::max(book.used_mib, taken_mib);
  account.free_mib = std::max<std::int64_t>(0, book.usable_mib - held_mib);
  return account;
}

std::int64_t Ledger::SeenFreeMib(GpuIndex gpu) const {
  const Book& book = books_[Number(gpu)];
  return std::max<std::int64_t>(0, book.usable_mib - book.used_mib);
}

std::span<const GpuIndex> Ledger::GpusOf(TaskId task) const {
  const auto held = gpus_of_.find(task);
  if (held == gpus_of_.end()) return {};
  return held->second;
}

}  // namespace carma::core
