#include "lab/trace/job_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/csv.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/try.h"
#include "lab/trace/job_collector.h"

namespace carma::trace {
namespace {

// Alibaba's dates are invented, but the time of day is real. Time 0 is 8:00 because these are Unix
// times and the cluster's time zone is UTC+8.
constexpr std::int64_t kPaiClockMs = std::int64_t{8} * 3'600'000;

// One row of a table. Columns are numbered as in the format's own list.
struct Row {
  // Empty if the table has no such column.
  std::string_view Text(int column) const {
    if (!Has(column)) return {};
    const int place = places[static_cast<std::size_t>(column)];
    const std::string_view text = base::Trim(cells[static_cast<std::size_t>(place)]);
    return text == "None" || text == "nan" || text == "NaN" ? std::string_view() : text;
  }
  std::optional<double> Number(int column) const { return base::ParseDouble(Text(column)); }
  bool Has(int column) const { return places[static_cast<std::size_t>(column)] >= 0; }

  const CsvCells& cells;
  const std::vector<int>& places;  // of the columns in the table; -1: not in the table
};

// Sets the submission time from a column in seconds.
bool SetSubmit(Job& job, const Row& row, int column, JobCollector& out) {
  const std::optional<double> seconds = row.Number(column);
  return out.SetSubmit(job, seconds ? std::optional(*seconds * 1000) : std::nullopt,
                       row.Text(column));
}

// Sets the duration to the time between the start and end columns, if the end is known. SetSubmit
// must have accepted the start.
void SetSpan(Job& job, const Row& row, int start, int end, JobCollector& out) {
  const std::optional<double> to = row.Number(end);
  out.SetDuration(job, to ? std::optional(*to - *row.Number(start)) : std::nullopt, row.Text(end));
}

// ---- job tables in CARMA's format ----

constexpr std::array kJobsColumns{"submit_s", "gpus",   "duration_s", "gpu_milli",   "vc",
                                  "user",     "status", "phase",      "workload_id", "account",
                                  "qos",      "cpus",   "gpu_type"};
void TakeJobsRow(Job job, const Row& row, JobCollector& out) {
  enum Column { kSubmit, kGpus, kDuration, kGpuMilli, kVc, kUser, kStatus, kPhase, kWorkload };
  enum Wish { kAccount = kWorkload + 1, kQos, kCpus, kGpuType };
  if (!SetSubmit(job, row, kSubmit, out)) return;
  std::optional<double> gpus = row.Number(kGpus);
  // A pod has a share of one GPU, or several whole GPUs.
  if (gpus == 1 && !row.Text(kGpuMilli).empty()) {
    const std::optional<double> milli = row.Number(kGpuMilli);
    gpus = milli && *milli <= 1000 ? std::optional(*milli / 1000) : std::nullopt;
  }
  if (!out.SetGpus(job, gpus, row.Text(kGpus))) return;
  out.CheckOrder(job, row.Text(kSubmit));
  out.SetDuration(job, row.Number(kDuration), row.Text(kDuration));
  // The class of a pod is Kubernetes' own, as in Alibaba's traces, not one of CARMA's.
  const bool pods = row.Has(kGpuMilli);
  const std::string_view qos = row.Text(kQos);
  out.SetVc(job, pods && !row.Has(kVc) ? qos : row.Text(kVc));
  out.SetUser(job, row.Text(kUser));
  out.SetWorkload(job, row.Text(kWorkload));
  out.SetWishes(job, {row.Text(kAccount), pods ? "" : qos, row.Text(kCpus), row.Text(kGpuType)});
  out.SetStatus(job, row.Text(row.Has(kStatus) ? kStatus : kPhase));
  out.Add(job);
}

// ---- task traces, which name workloads; the catalogue has the rest ----

constexpr std::array kTasksColumns{"submit_s", "workload_id", "solo_s", "user",
                                   "account",  "qos",         "cpus",   "gpu_type"};
void TakeTasksRow(Job job, const Row& row, JobCollector& out) {
  enum Column { kSubmit, kWorkload, kSolo, kUser, kAccount, kQos, kCpus, kGpuType };
  if (!SetSubmit(job, row, kSubmit, out)) return;
  const std::string id(row.Text(kWorkload));
  const Result<const Workload*> workload = out.options().catalogue->Find(id);
  if (!workload) return out.Complain(Complaint::kWorkload, job.line, id);
  if (!out.SetGpus(job, (*workload)->gpus, "")) return;
  out.CheckOrder(job, row.Text(kSubmit));
  out.SetWorkload(job, id);
  const std::string_view solo = row.Text(kSolo);
  out.SetDuration(job, solo.empty() ? (*workload)->solo_s : row.Number(kSolo), solo);
  out.SetUser(job, row.Text(kUser));
  out.SetWishes(job, {row.Text(kAccount), row.Text(kQos), row.Text(kCpus), row.Text(kGpuType)});
  out.Add(job);
}

// ---- Helios: cluster_log.csv ----

constexpr std::array kHeliosColumns{"job_id", "gpu_num", "submit_time", "duration", "state",
                                    "user",   "vc",      "start_time",  "end_time"};
void TakeHeliosRow(Job job, const Row& row, JobCollector& out) {
  enum Column { kId, kGpus, kSubmit, kDuration, kState, kUser, kVc, kStart, kEnd };
  if (!out.SetSubmit(job, ParseLocalTime(row.Text(kSubmit)), row.Text(kSubmit))) return;
  if (!out.SetGpus(job, row.Number(kGpus), row.Text(kGpus))) return;
  // Job numbers, and therefore lines, are in chronological order.
  out.CheckOrder(job, row.Text(kSubmit));
  out.SetStatus(job, row.Text(kState));
  out.SetUser(job, row.Text(kUser));
  out.SetVc(job, row.Text(kVc));
  if (row.Text(kDuration).empty()) {
    const auto start = ParseLocalTime(row.Text(kStart));
    const auto end = ParseLocalTime(row.Text(kEnd));
    std::optional<double> seconds;
    if (start && end) seconds = static_cast<double>(*end - *start) / 1000;
    out.SetDuration(job, seconds, seconds ? row.Text(kEnd) : "");
  } else {
    out.SetDuration(job, row.Number(kDuration), row.Text(kDuration));
  }
  out.Add(job);
}

// ---- Alibaba v2023: openb_pod_list_*.csv ----

// cpu_milli is not read. It is listed so that it is not mistaken for a misspelt gpu_milli.
constexpr std::array kOpenbColumns{"num_gpu",        "gpu_milli", "creation_time", "deletion_time",
                                   "scheduled_time", "pod_phase", "qos",           "cpu_milli"};
void TakeOpenbRow(Job job, const Row& row, JobCollector& out) {
  enum Column { kGpus, kGpuMilli, kCreated, kDeleted, kScheduled, kPhase, kQos };
  if (!SetSubmit(job, row, kCreated, out)) return;
  std::optional<double> gpus = row.Number(kGpus);
  std::string_view text = row.Text(kGpus);
  if (gpus == 1 && row.Number(kGpuMilli).value_or(0) != 1000) {
    text = row.Text(kGpuMilli);
    gpus = row.Number(kGpuMilli);
    if (gpus) *gpus = *gpus > 1000 || *gpus <= 0 ? -1 : *gpus / 1000;
  }
  if (!out.SetGpus(job, gpus, text)) return;
  out.CheckOrder(job, row.Text(kCreated));
  out.SetStatus(job, row.Text(kPhase));
  out.SetVc(job, row.Text(kQos));
  // A pod that never got a GPU used no GPU time.
  const std::optional<double> scheduled = row.Number(kScheduled);
  const std::optional<double> deleted = row.Number(kDeleted);
  std::optional<double> seconds;
  if (scheduled && deleted) seconds = *deleted - *scheduled;
  out.SetDuration(job, seconds, seconds ? row.Text(kDeleted) : "");
  out.Add(job);
}

// ---- Alibaba PAI v2020: pai_task_table.csv ----

// Tasks of one job (workers, evaluators) start together and count as one job. Their GPUs are added
// up, and the duration is the time from the first start to the last end.
void Merge(Job& job, const Job& other, JobCollector& out) {
  const std::int64_t milli = std::int64_t{job.gpu_milli} + other.gpu_milli;
  if (milli > std::int64_t{kMaxJobGpus} * 1000)
    return out.Complain(Complaint::kGpus, other.line, fmt::format("{} together", milli / 1000));
  job.gpu_milli = static_cast<std::int32_t>(milli);
  const base::Duration start = std::min(job.submit, other.submit);
  if (job.duration && other.duration) {
    const base::Duration end = std::max(job.submit + *job.duration, other.submit + *other.duration);
    job.duration = end - start;
  } else {
    job.duration.reset();
  }
  job.submit = start;
  if (job.status == JobStatus::kPassed) job.status = other.status;
}

constexpr std::array kPaiColumns{"job_name", "task_name", "inst_num", "status",   "start_time",
                                 "end_time", "plan_cpu",  "plan_mem", "plan_gpu", "gpu_type"};
void TakePaiRow(Job job, const Row& row, JobCollector& out) {
  enum Column { kJob, kTask, kInstances, kStatus, kStart, kEnd, kCpu, kMemory, kGpu, kGpuType };
  if (!SetSubmit(job, row, kStart, out)) return;
  const std::optional<double> percent = row.Text(kGpu).empty() ? 0 : row.Number(kGpu);
  const std::optional<double> instances = row.Text(kInstances).empty() ? 1 : row.Number(kInstances);
  std::optional<double> gpus;
  if (percent && instances) gpus = *percent * *instances / 100;
  if (!out.SetGpus(job, gpus, gpus ? fmt::format("{}", *gpus) : row.Text(kGpu))) return;
  out.SetStatus(job, row.Text(kStatus));
  SetSpan(job, row, kStart, kEnd, out);
  if (Job* known = out.Known(row.Text(kJob))) return Merge(*known, job, out);
  out.Add(job);
}

// ---- Alibaba PAI v2020: pai_job_table.csv, which has no GPUs ----

constexpr std::array kPaiJobsColumns{"job_name", "inst_id",    "user",
                                     "status",   "start_time", "end_time"};
void TakePaiJobsRow(Job job, const Row& row, JobCollector& out) {
  enum Column { kJob, kInstance, kUser, kStatus, kStart, kEnd };
  if (!SetSubmit(job, row, kStart, out)) return;
  job.gpu_milli = 1000;
  out.SetUser(job, row.Text(kUser));
  out.SetStatus(job, row.Text(kStatus));
  SetSpan(job, row, kStart, kEnd, out);
  out.Add(job);
}

// ---- recognising a table ----

struct Traits {
  bool dated = false;  // times are relative to some moment before the first job
  std::optional<std::int64_t> clock_ms = {};  // the time of day at time 0
  bool may_lack_header = false;
};

struct Layout {
  std::string_view name;
  std::span<const char* const> columns;  // required columns come first
  std::size_t required = 0;
  void (*take)(Job job, const Row& row, JobCollector& out) = nullptr;
  Traits traits = {};
};

constexpr Traits kPaiTraits{.dated = true, .clock_ms = kPaiClockMs, .may_lack_header = true};
// Job tables are tried first, because a job table may also name workloads.
constexpr Layout kLayouts[] = {
    {"jobs", kJobsColumns, 3, &TakeJobsRow},
    {"tasks", kTasksColumns, 2, &TakeTasksRow},
    {"helios", kHeliosColumns, 5, &TakeHeliosRow, {.dated = true, .clock_ms = 0}},
    {"openb", kOpenbColumns, 5, &TakeOpenbRow, {.dated = true}},
    {"pai", kPaiColumns, 10, &TakePaiRow, kPaiTraits},
    {"pai-jobs", kPaiJobsColumns, 6, &TakePaiJobsRow, kPaiTraits},
};
constexpr std::string_view kPhilly = "philly";

// Positions of the layout's columns in the header; -1 for a missing column. Empty if a required
// column is missing.
std::optional<std::vector<int>> PlacesIn(const CsvCells& header, const Layout& layout) {
  std::vector<int> places(layout.columns.size(), -1);
  for (std::size_t column = 0; column < places.size(); ++column) {
    for (std::size_t i = 0; i < header.size() && places[column] < 0; ++i) {
      if (base::Trim(header[i]) == layout.columns[column]) places[column] = static_cast<int>(i);
    }
    if (places[column] < 0 && column < layout.required) return std::nullopt;
  }
  return places;
}

// Positions of the columns in a table without a header. Empty if `cells` cannot be the first line
// of such a table.
std::optional<std::vector<int>> PlacesWithout(const CsvCells& cells, const Layout& layout) {
  if (!layout.traits.may_lack_header || cells.size() != layout.columns.size()) return std::nullopt;
  // Both PAI tables have times in their fifth and sixth columns.
  for (const std::size_t time : {std::size_t{4}, std::size_t{5}}) {
    if (!cells[time].empty() && !base::ParseDouble(cells[time])) return std::nullopt;
  }
  std::vector<int> places(cells.size());
  std::iota(places.begin(), places.end(), 0);
  return places;
}

struct Recognised {
  const Layout* layout = nullptr;
  std::vector<int> places;
  bool header = true;  // the line was a header, not a row
};

std::optional<Recognised> Recognise(const CsvCells& first, std::string_view wanted) {
  for (const bool header : {true, false}) {
    for (const Layout& layout : kLayouts) {
      if (!wanted.empty() && layout.name != wanted) continue;
      auto places = header ? PlacesIn(first, layout) : PlacesWithout(first, layout);
      if (places) return Recognised{&layout, *std::move(places), header};
    }
  }
  return std::nullopt;
}

// What a table must begin with. format: empty for any.
std::string ExpectedHeader(std::string_view format) {
  const Layout* layout =
      std::ranges::find(kLayouts, format.empty() ? "jobs" : format, &Layout::name);
  const auto required = layout->columns.first(layout->required);
  const std::string columns =
      base::Join(std::vector<std::string>(required.begin(), required.end()), ", ");
  if (!format.empty()) return fmt::format("the columns of format {}: {}", format, columns);
  return fmt::format(
      "a trace in one of the formats {} (jobs: comma-separated, with the columns {})",
      base::Join(TraceFormats(), ", "), columns);
}

Result<const Layout*> ReadTable(LineReader& lines, JobCollector& out) {
  const std::string_view format = out.options().format;
  CsvCells cells;
  std::size_t columns = 0;
  std::optional<Recognised> table;
  while (!out.error()) {
    const std::optional<Line> line = CARMA_TRY(lines.Next());
    if (!line) break;
    const Line& at = *line;
    if (at.number > std::numeric_limits<std::int32_t>::max())
      return Invalid(out.where() + ": too many lines");
    std::string_view text = at.text;
    if (at.number == 1 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    if (text.starts_with('#')) {
      if (!table) out.Comment(text.substr(1), at.number);
      continue;
    }
    if (at.too_long) {
      out.Complain(Complaint::kTooLong, at.number, text.substr(0, 40));
      continue;
    }
    if (base::Trim(text).empty()) continue;
    const bool whole = cells.Split(text);
    if (!table) {
      if (whole) table = Recognise(cells, format);
      if (!table) {
        return Invalid("{}:{}: expected {}, not '{}'", out.where(), at.number,
                       ExpectedHeader(format), base::Printable(text, 80));
      }
      columns = cells.size();
      if (table->header) {
        std::vector<std::string> header;
        for (std::size_t i = 0; i < columns; ++i) header.emplace_back(base::Trim(cells[i]));
        const std::string trouble = HeaderTrouble(header, table->layout->name);
        if (!trouble.empty()) return Invalid("{}:{}: {}", out.where(), at.number, trouble);
        continue;
      }
    }
    if (whole && cells.size() == columns) {
      table->layout->take({.line = static_cast<std::int32_t>(at.number)}, {cells, table->places},
                          out);
    } else if (whole && cells.size() > columns) {
      out.Complain(Complaint::kTooMany, at.number,
                   fmt::format("{} instead of {}", cells.size(), columns));
    } else {
      out.Complain(Complaint::kTorn, at.number, text);
    }
  }
  if (out.error()) return std::unexpected(*out.error());
  if (!table) return Invalid(out.where() + ": empty");
  return table->layout;
}

bool StartsAsJson(std::string_view bytes) {
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (bytes[first] == '[' || bytes[first] == '{');
}

}  // namespace

std::string HeaderTrouble(const std::vector<std::string>& header, std::string_view format) {
  if (std::string same = base::SameColumns(header); !same.empty()) return same;
  std::vector<std::string> missing;
  for (const char* column : std::ranges::find(kLayouts, format, &Layout::name)->columns) {
    if (std::ranges::count(header, column) == 0) missing.emplace_back(column);
  }
  for (const std::string& name : header) {
    const bool known = std::ranges::any_of(kLayouts, [&name](const Layout& layout) {
      return std::ranges::count(layout.columns, name) > 0;
    });
    if (known) continue;
    // Only one letter may differ, because "start_s" is not a misspelt "status".
    if (const auto meant = base::DidYouMean(name, missing, 1))
      return fmt::format("unknown column '{}', did you mean {}? (rename or remove it)",
                         base::Printable(name, 60), *meant);
  }
  return "";
}

std::vector<std::string> TraceFormats() {
  std::vector<std::string> formats{std::string(kPhilly)};
  for (const Layout& layout : kLayouts) formats.emplace_back(layout.name);
  return formats;
}

Result<JobTrace> ReadJobs(ByteSource& source, std::string_view path, const ReadOptions& asked) {
  if (!asked.format.empty() && std::ranges::count(TraceFormats(), asked.format) == 0) {
    return Invalid("format '{}': expected {}", base::Printable(asked.format, 40),
                   base::Join(TraceFormats(), ", "));
  }
  ReadOptions options = asked;
  std::optional<Catalogue> built_in;
  if (options.catalogue == nullptr) {
    Catalogue catalogue = CARMA_TRY(Catalogue::BuiltIn());
    options.catalogue = &built_in.emplace(std::move(catalogue));
  }
  LineReader lines(source);
  JobCollector out(path, options);
  const std::string_view first = CARMA_TRY(lines.Peek());
  if (first.starts_with("\x1f\x8b"))
    return Invalid(out.where() + ": a gzip file; use gunzip first");
  const bool json = options.format.empty() ? StartsAsJson(first) : options.format == kPhilly;
  if (json) {
    CARMA_TRY(ReadPhilly(lines, out));
    return out.Finish(kPhilly, lines, true, 0);
  }
  const Layout& layout = *CARMA_TRY(ReadTable(lines, out));
  return out.Finish(layout.name, lines, layout.traits.dated, layout.traits.clock_ms);
}

}  // namespace carma::trace
