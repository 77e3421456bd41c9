// What `carma profile` found, for people and for programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal.h"
#include "lab/verbs/profile/findings.h"
#include "lab/verbs/profile/results.h"

namespace carma::cli {

// Profiles, parameters, what sharing did, what watching costs, what failed.
std::string FindingsText(std::span<const TypeFindings> findings, std::span<const MeasuredRun> runs,
                         const Screen& screen);
// One JSON object: {"types":[…], "failed":[…]} (docs/server/profile.md).
std::string FindingsJson(std::span<const TypeFindings> findings, std::span<const MeasuredRun> runs);
// One line for each workload in each group that was measured.
std::string MeetingsCsv(std::span<const TypeFindings> findings);
// One line for each workload and watcher.
std::string WatchingCsv(std::span<const TypeFindings> findings);
// What is known in full of the workloads of a type, as a catalogue for simulations
// (trace/workloads.h): times are those of an A100-40GB, by the relative speed of the type where the
// simulator knows it.
std::string CatalogueCsv(const TypeFindings& type);
// A page of tables and figures.
std::string FindingsHtml(std::span<const TypeFindings> findings, std::span<const MeasuredRun> runs,
                         std::string_view title);

}  // namespace carma::cli
