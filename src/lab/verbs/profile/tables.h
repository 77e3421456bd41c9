// Formats the findings of `carma profile` as text, JSON, CSV and HTML.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/terminal.h"
#include "lab/verbs/profile/findings.h"
#include "lab/verbs/profile/results.h"

namespace carma::cli {

// A readable report: profiles, parameters, effects of sharing, cost of monitoring, failures.
std::string FindingsText(std::span<const TypeFindings> findings, std::span<const MeasuredRun> runs,
                         const Screen& screen);
// One JSON object: {"types":[…], "failed":[…]} (docs/server/profile.md).
std::string FindingsJson(std::span<const TypeFindings> findings, std::span<const MeasuredRun> runs);
// One CSV line for each workload in each measured group.
std::string MeetingsCsv(std::span<const TypeFindings> findings);
// One CSV line for each workload and watcher.
std::string WatchingCsv(std::span<const TypeFindings> findings);
// True if enough was measured for CatalogueCsv() to list the workload.
bool InCatalogue(const profile::WorkloadProfile& workload);
// A GPU type's workloads as a catalogue for simulations (trace/workloads.h). Times are converted to
// those on an A100-40GB if the simulator knows the type's speed. Sensitivity and pressure are
// guessed (core::GuessMps) if no pairs were measured under MPS.
std::string CatalogueCsv(const TypeFindings& type);
// A page of tables and figures.
std::string FindingsHtml(std::span<const TypeFindings> findings, std::span<const MeasuredRun> runs,
                         std::string_view title);

}  // namespace carma::cli
