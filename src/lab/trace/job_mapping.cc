#include "lab/trace/job_mapping.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/rng.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::trace {

using base::Duration;

namespace {

// A shelf holds the workloads that need the same number of GPUs, grouped by the classes of the mix.
using Shelf = std::vector<std::vector<const Workload*>>;

// The shelf for each number of GPUs. Returns kInvalid if a class has no workloads.
Result<std::map<int, Shelf>> Shelves(const Catalogue& catalogue,
                                     const std::vector<ClassShare>& mix) {
  std::map<int, Shelf> shelves;
  for (std::size_t i = 0; i < mix.size(); ++i) {
    bool found = false;
    for (const auto& [id, workload] : catalogue.workloads()) {
      const std::string& wanted = mix[i].weight_class;
      if (!wanted.empty() && workload.weight_class != wanted) continue;
      Shelf& shelf = shelves[workload.gpus];
      shelf.resize(mix.size());
      shelf[i].push_back(&workload);
      found = true;
    }
    if (!found) {
      return Invalid(
          "the catalogue has no workload of class '{}'; without --mix, every job may get "
          "any workload",
          base::Printable(mix[i].weight_class, 40));
    }
  }
  return shelves;
}

// Converts the shares to whole numbers of tasks. The remaining tasks go to the classes with the
// largest remainders.
std::vector<std::size_t> Quotas(const std::vector<ClassShare>& mix, std::size_t tasks) {
  std::vector<std::size_t> quotas;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::size_t given = 0;
  for (std::size_t i = 0; i < mix.size(); ++i) {
    const double exact = mix[i].share * static_cast<double>(tasks);
    quotas.push_back(static_cast<std::size_t>(exact));
    remainders.emplace_back(-(exact - std::floor(exact)), i);
    given += quotas.back();
  }
  std::ranges::sort(remainders);
  for (std::size_t i = 0; given < tasks; ++i, ++given) ++quotas[remainders[i % mix.size()].second];
  return quotas;
}

// Chooses a class for a job. Called for shorter jobs first, so that they get the first classes of
// the mix. Returns the shelf's first class that has a task left in `left`, or the shelf's last
// class if none has.
std::size_t TakeClass(const Shelf& shelf, std::vector<std::size_t>& left) {
  std::size_t chosen = shelf.size();
  for (std::size_t i = 0; i < shelf.size(); ++i) {
    if (shelf[i].empty()) continue;
    chosen = i;
    if (left[i] > 0) break;
  }
  if (left[chosen] > 0) --left[chosen];
  return chosen;
}

bool HasOneClass(const Shelf& shelf) {
  return std::ranges::count_if(shelf, [](const auto& each) { return !each.empty(); }) == 1;
}

// The jobs' indices in order of duration, shortest first. Unknown durations count as the median.
std::vector<std::size_t> ByDuration(const std::vector<Job>& jobs, std::size_t& unknown) {
  std::vector<Duration> known;
  for (const Job& job : jobs) {
    if (job.duration) known.push_back(*job.duration);
  }
  unknown = jobs.size() - known.size();
  Duration median{};
  if (!known.empty()) {
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::nth_element(known.begin(), middle, known.end());
    median = *middle;
  }
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](std::size_t i) { return jobs[i].duration.value_or(median); });
  return order;
}

}  // namespace

Result<std::vector<ClassShare>> ParseMix(std::string_view text) {
  std::vector<ClassShare> mix;
  double sum = 0;
  for (const std::string_view piece : base::Split(text, ',')) {
    const std::size_t equals = piece.find('=');
    const std::string name(base::Trim(piece.substr(0, equals)));
    std::optional<double> share;
    if (equals != std::string_view::npos)
      share = base::ParseDouble(base::Trim(piece.substr(equals + 1)));
    const bool twice =
        std::ranges::any_of(mix, [&](const ClassShare& each) { return each.weight_class == name; });
    if (name.empty() || !share || *share <= 0 || *share > 1e6 || twice) {
      return Invalid("mix '" + base::Printable(text, 80) +
                     "': expected class shares such as light=65,medium=27,heavy=8");
    }
    mix.push_back({name, *share});
    sum += *share;
  }
  for (ClassShare& each : mix) each.share /= sum;
  return mix;
}

std::vector<ClassShare> MixFor(const Catalogue& catalogue) {
  std::vector<ClassShare> usual = *ParseMix(kUsualMix);
  return Shelves(catalogue, usual) ? usual : std::vector<ClassShare>{{.share = 1}};
}

Result<MappedTasks> MapJobs(const JobTrace& trace, const Catalogue& catalogue,
                            const MapOptions& options) {
  if (trace.jobs.size() > kMaxTraceTasks) {
    return Invalid(
        "{} jobs, but a task trace can hold at most {}; use carma trace window or sample",
        trace.jobs.size(), kMaxTraceTasks);
  }
  MappedTasks mapped;
  std::vector<Job> jobs = trace.jobs;
  mapped.never_ran = std::erase_if(jobs, NeverRan);
  if (jobs.empty()) return Invalid("none of the trace's jobs ever ran");
  if (jobs.back().submit > kMaxSubmission)
    return Invalid(
        "the submission times span more than a year; cut the trace with 'carma trace window'");
  const std::size_t tasks = jobs.size();
  const std::map<int, Shelf> shelves = CARMA_TRY(Shelves(catalogue, options.mix));
  std::vector<const Workload*> workloads(tasks);
  std::vector<const Shelf*> shelf_of(tasks);  // null: the job names its workload
  for (std::size_t i = 0; i < tasks; ++i) {
    workloads[i] = catalogue.Find(trace.workloads.Text(jobs[i].workload)).value_or(nullptr);
    if (workloads[i] != nullptr) {
      ++mapped.kept;
      continue;
    }
    const int gpus = WholeGpus(jobs[i]);
    auto shelf = shelves.upper_bound(gpus);
    if (shelf != shelves.begin()) --shelf;
    shelf_of[i] = &shelf->second;
    mapped.other_gpus += shelf->first * 1000 != jobs[i].gpu_milli ? 1 : 0;
  }
  const std::vector<std::size_t> by_duration = ByDuration(jobs, mapped.no_duration);
  // Jobs with only one possible class come first; the other jobs choose from what is left.
  mapped.quotas = Quotas(options.mix, tasks - mapped.kept);
  std::vector<std::size_t> left = mapped.quotas;
  std::vector<std::size_t> classes(tasks);
  mapped.by_class.resize(options.mix.size());
  for (const bool without_choice : {true, false}) {
    for (const std::size_t i : by_duration) {
      if (shelf_of[i] == nullptr || HasOneClass(*shelf_of[i]) != without_choice) continue;
      classes[i] = TakeClass(*shelf_of[i], left);
      ++mapped.by_class[classes[i]];
    }
  }
  base::Rng rng(options.seed);
  mapped.trace.submissions.reserve(tasks);
  for (std::size_t i = 0; i < tasks; ++i) {
    const Job& job = jobs[i];
    if (shelf_of[i] != nullptr) {
      const std::vector<const Workload*>& choice = (*shelf_of[i])[classes[i]];
      workloads[i] = choice[rng.Below(choice.size())];
    }
    Submission submission{.at = job.submit, .workload_id = workloads[i]->id, .line = job.line};
    if (options.keep_durations && job.duration)
      submission.solo_s = std::clamp(base::Seconds(*job.duration), kMinSoloS, kMaxSoloS);
    if (options.groups_as_users || trace.users.size() > 1)
      submission.user =
          options.groups_as_users ? trace.vcs.Text(job.vc) : trace.users.Text(job.user);
    SetWishes(submission, trace.wishes.Text(job.wishes));
    mapped.trace.submissions.push_back(std::move(submission));
  }
  return mapped;
}

}  // namespace carma::trace
