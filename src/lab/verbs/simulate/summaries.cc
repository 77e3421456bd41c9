#include "lab/verbs/simulate/summaries.h"

#include <filesystem>
#include <map>
#include <system_error>

#include "base/file.h"
#include "base/text.h"

namespace carma::cli {
namespace {

// Paths of the folder's files by their lower-case names.
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

}  // namespace

Result<LoadedSummaries> LoadSummaries(const trace::Catalogue& catalogue,
                                      const std::string& folder) {
  const Result<std::map<std::string, std::string>> files = FilesOf(folder);
  if (!files) return std::unexpected(files.error());
  std::map<std::string, estimate::Summary> read;  // many workloads name the same file
  LoadedSummaries loaded;
  for (const auto& [id, workload] : catalogue.workloads()) {
    const auto file = files->find(base::ToLower(workload.summary_file));
    if (workload.summary_file.empty() || file == files->end()) {
      loaded.troubles.push_back(id + (workload.summary_file.empty()
                                          ? ": no summary file is stated"
                                          : ": no file " + workload.summary_file));
      continue;
    }
    const auto [entry, is_new] = read.try_emplace(file->second);
    estimate::Summary& summary = entry->second;
    if (is_new) {
      summary = estimate::ReadSummary(base::ReadFile(file->second, model::kMaxSummaryBytes),
                                      file->second);
    }
    if (!summary.layers) loaded.troubles.push_back(id + ": " + summary.trouble);
    loaded.by_workload[id] = summary;
  }
  return loaded;
}

}  // namespace carma::cli
