#include "cli/simulate/estimates.h"

#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "estimate/asking.h"
#include "estimate/estimator.h"

namespace carma::cli {
namespace {

using base::Result;

// Paths of the folder's files by their names in small letters.
Result<std::map<std::string, std::string>> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator each(folder, error);
  if (error) return base::FailErrno(error.value(), folder);
  for (; each != std::filesystem::directory_iterator(); each.increment(error)) {
    files[base::ToLower(each->path().filename().string())] = each->path().string();
  }
  return files;
}

class Asker {
 public:
  Asker(const std::string& estimator, double coverage, std::int64_t gpu_mib)
      : estimator_(estimate::FindEstimator(estimator)->make()),
        coverage_(coverage),
        gpu_mib_(gpu_mib) {}

  Result<std::int64_t> Promise(const trace::Workload& workload, const std::string& path) {
    const estimate::Summary& summary = SummaryOf(path);
    if (!summary.layers) return base::Fail(base::ErrorCode::kNotFound, summary.trouble);
    estimate::Question question;
    question.layers = &*summary.layers;
    question.batch = summary.layers->batch;
    if (workload.traits.batch_size) question.batch = *workload.traits.batch_size;
    question.optimizer = estimate::ParseOptimizer(workload.optimizer);
    question.gpus = workload.gpus;
    question.gpu_mib = gpu_mib_;
    if (coverage_ > 0) question.coverage = coverage_;
    const Result<estimate::Answer> answer = estimator_->Ask(question);
    if (!answer) return std::unexpected(answer.error());
    return estimate::PromiseOf(*answer, coverage_, gpu_mib_);
  }

 private:
  // Many workloads name the same file.
  const estimate::Summary& SummaryOf(const std::string& path) {
    const auto [entry, is_new] = summaries_.try_emplace(path);
    if (is_new) {
      entry->second = estimate::ReadSummary(base::ReadFile(path, model::kMaxSummaryBytes), path);
    }
    return entry->second;
  }

  std::unique_ptr<estimate::Estimator> estimator_;
  double coverage_;
  std::int64_t gpu_mib_;
  std::map<std::string, estimate::Summary> summaries_;
};

}  // namespace

Result<WorkloadEstimates> EstimateWorkloads(const trace::Catalogue& catalogue,
                                            const std::string& folder, const std::string& estimator,
                                            double coverage, std::int64_t gpu_mib) {
  const Result<std::map<std::string, std::string>> files = FilesOf(folder);
  if (!files) return std::unexpected(files.error());
  Asker asker(estimator, coverage, gpu_mib);
  WorkloadEstimates estimates;
  for (const auto& [id, workload] : catalogue.workloads()) {
    const auto file = files->find(base::ToLower(workload.summary_file));
    if (workload.summary_file.empty() || file == files->end()) {
      estimates.troubles.push_back(id + (workload.summary_file.empty()
                                             ? ": no summary file is named"
                                             : ": no file " + workload.summary_file));
      continue;
    }
    const Result<std::int64_t> promised = asker.Promise(workload, file->second);
    if (promised) {
      estimates.promised_mib[id] = *promised;
    } else {
      estimates.troubles.push_back(id + ": " + promised.error().message);
    }
  }
  return estimates;
}

}  // namespace carma::cli
