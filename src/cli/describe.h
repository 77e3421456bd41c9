// From the words of `carma submit` to task specs, without a daemon.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/verbs.h"
#include "task/describe/options.h"

namespace carma::cli {

// One submission as it goes to the daemon: one spec, or one for every index of an array.
struct Described {
  std::string spec;                   // JSON text
  std::vector<std::int64_t> indices;  // empty: no array
  std::vector<std::string> warnings;
};

// The caller's folder, home and environment. Errors: kIo if the folder is gone.
base::Result<task::SubmitterContext> CallerContext();
// Sets the options in the order given. Errors: kInvalid "--gpus: …".
base::Result<base::Unit> ApplyOptions(const SubmitFlags& flags, task::Description& description);
// A .rad file, or a script as ApplyWords knows it.
bool DescribesTask(const std::string& path);
// What the words say: `literal` or a plain word: a command; "-": a script on standard input;
// FILE.rad; a file that starts with "#!": its text is the task, later edits do not change it.
// Errors: kInvalid with the place, kNotFound for a missing .rad file.
base::Result<base::Unit> ApplyWords(const std::vector<std::string>& words, bool literal,
                                    task::Description& description);
// What plan files say; options that come later count before it. Errors: as ReadNamed; kInvalid with
// the file and the place.
base::Result<std::vector<task::TrainingWord>> ReadPlanFiles(
    const std::vector<task::PlanFile>& files);

// Puts what the plan files say before what options say of the training. spec: as the description's
// Finish() made it. Errors: kInvalid for options that mean nothing, and as ReadPlanFiles.
base::Result<base::Unit> AddTraining(const task::Description& description, task::TaskSpec& spec);
base::Result<Described> Describe(const SubmitFlags& flags, const std::vector<std::string>& words,
                                 bool literal, const task::SubmitterContext& caller);

}  // namespace carma::cli
