// From the words of `carma submit` to task specs, without a daemon.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/verbs.h"
#include "task/describe/options.h"

namespace carma::cli {

// One submission as it goes to the daemon: one spec, or one for every index of an array.
struct Described {
  std::string spec;                // JSON text
  std::vector<std::string> specs;  // of a sweep one for each task, what they share in `common`
  std::string common;
  task::TaskSpec first;               // of all of them
  std::vector<std::int64_t> indices;  // empty: no array
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  // on the memory estimate, for those who ask
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

// Adds to descriptions what their commands, and the files these name, say of a training. What
// options say counts before it. Nothing is executed.
class TrainingFinder {
 public:
  // spec: as the description's Finish() made it; notes: grows by what stood in the way. Nothing is
  // looked for where the memory is stated. Errors: kInvalid for options that mean nothing, and as
  // ReadPlanFiles.
  base::Result<base::Unit> Add(const task::Description& description, task::TaskSpec& spec,
                               std::vector<std::string>& notes);

 private:
  base::Result<std::string> Read(const std::string& path, std::size_t max_bytes);

  std::map<std::string, base::Result<std::string>> files_;  // thousands of tasks name one file
};

base::Result<Described> Describe(const SubmitFlags& flags, const std::vector<std::string>& words,
                                 bool literal, const task::SubmitterContext& caller);
// The same of the words of the context, dependencies such as afterok:@ resolved, as the daemon's
// clock has it; warnings are printed, and what cannot start is refused (checks.h) unless
// flags.no_check.
base::Result<Described> DescribeWords(Context& context, const SubmitFlags& flags);

}  // namespace carma::cli
