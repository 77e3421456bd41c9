#include "core/books/ledger.h"

#include <algorithm>

#include "base/result.h"

namespace carma::core {
namespace {

auto Find(std::vector<Resident>& residents, TaskId task) {
  return std::lower_bound(residents.begin(), residents.end(), task,
                          [](const Resident& each, TaskId id) { return each.task < id; });
}

}  // namespace

std::int64_t PromiseOf(const Resident& resident, Time plateau_from) {
  const std::int64_t most_mib = std::max(resident.claim_mib, resident.observed_mib);
  if (!resident.memory.StandsSince(plateau_from)) return most_mib;
  return std::min(most_mib, NeedAfterPlateau(resident.memory.peak_mib()));
}

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

bool Ledger::Observe(GpuIndex gpu, const GpuSample& sample) {
  Book& book = books_[Number(gpu)];
  bool risen = false;
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
    risen |= at->memory.See(mib, sample.taken);
  }
  if (!sample.attributed) {
    for (Resident& resident : book.residents) resident.memory.Doubt(sample.taken);
    risen = true;
  }
  if (sample.attributed) {
    book.known_foreign_mib = std::max<std::int64_t>(0, sample.used_mib - ours_mib);
  } else if (sample.foreign_processes == 0) {
    book.known_foreign_mib = 0;
  }
  return risen;
}

void Ledger::NoteActivity(GpuIndex gpu, TaskId task, double sm_active) {
  Find(books_[Number(gpu)].residents, task)->sm_active = sm_active;
}

std::span<const Resident> Ledger::ResidentsOf(GpuIndex gpu) const {
  return books_[Number(gpu)].residents;
}

Account Ledger::AccountOf(GpuIndex gpu, Time plateau_from) const {
  const Book& book = books_[Number(gpu)];
  Account account;
  for (const Resident& resident : book.residents) {
    account.claimed_mib += resident.claim_mib;
    account.promised_mib += PromiseOf(resident, plateau_from);
  }
  account.foreign_mib = book.known_foreign_mib;
  const std::int64_t taken_mib = account.promised_mib + book.known_foreign_mib;
  const std::int64_t held_mib = book.attributed ? taken_mib : std::max(book.used_mib, taken_mib);
  account.free_mib = std::max<std::int64_t>(0, book.usable_mib - held_mib);
  return account;
}

std::optional<std::int64_t> Ledger::PlateauOf(TaskId task, Time plateau_from) const {
  std::int64_t peak_mib = 0;
  for (const GpuIndex gpu : GpusOf(task)) {
    const std::span<const Resident> residents = ResidentsOf(gpu);
    const Plateau& memory = std::ranges::find(residents, task, &Resident::task)->memory;
    if (!memory.StandsSince(plateau_from)) return std::nullopt;
    peak_mib = std::max(peak_mib, memory.peak_mib());
  }
  if (peak_mib == 0) return std::nullopt;
  return peak_mib;
}

std::optional<double> Ledger::OthersShareOf(TaskId task) const {
  const std::span<const GpuIndex> gpus = GpusOf(task);
  if (gpus.size() < 2) return std::nullopt;
  std::int64_t most_mib = 0, others_mib = 0;
  for (const GpuIndex gpu : gpus) {
    const std::int64_t peak_mib =
        std::ranges::find(ResidentsOf(gpu), task, &Resident::task)->memory.peak_mib();
    most_mib = std::max(most_mib, peak_mib);
    if (gpu != gpus.front()) others_mib = std::max(others_mib, peak_mib);
  }
  if (most_mib == 0) return std::nullopt;
  return static_cast<double>(others_mib) / static_cast<double>(most_mib);
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
