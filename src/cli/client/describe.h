// Turns the words of `carma submit` into task specs, without a daemon.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/verbs.h"
#include "task/describe/description.h"

namespace carma::cli {

// One submission to the daemon: one spec, or a spec for each index of an array.
struct Described {
  std::string spec;  // JSON text
  std::vector<std::string>
      specs;  // for a sweep: a spec for each task, with shared fields in `common`
  std::string common;
  task::TaskSpec first;               // the first task
  std::vector<std::int64_t> indices;  // empty if this is not an array
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  // about the memory estimate, shown on request
};

// Returns the caller's folder, home and environment; kIo or kDenied if the folder is unreadable.
Result<task::SubmitterContext> CallerContext();
// Like CallerContext(). If the settings contain --begin, `now` is taken from the daemon's clock,
// which may differ from this machine's.
Result<task::SubmitterContext> CallerContext(Context& context, const Settings& settings);
// Sets the options in the given order. Returns kInvalid "--gpus: …" if an option is invalid.
Result<Unit> ApplyOptions(const SubmitFlags& flags, task::Description& description);
// True if the file is a .rad file, or a script as defined by ApplyWords.
bool DescribesTask(const std::string& path);
// Interprets the words as one of:
//   - a script on standard input ("-"), a FILE.rad, or a file that starts with "#!";
//   - otherwise, or if `literal`, a command.
// A script's text becomes part of the task, so later edits to the file have no effect. Returns
// kInvalid if the file is missing, or with the position of the error if its text is invalid.
Result<Unit> ApplyWords(const std::vector<std::string>& words, bool literal,
                        task::Description& description);
// Reads plan files. Later options override their values. Returns kInvalid, with the file and the
// position, if the contents are invalid. Propagates errors from ReadNamed().
Result<std::vector<task::TrainingWord>> ReadPlanFiles(const std::vector<task::PlanFile>& files);

// Finds the settings of a training run in a task's command and in the files that the command names,
// and adds them to the spec. Options take precedence. Nothing is executed.
class TrainingFinder {
 public:
  // spec: from the description's Finish(). notes: receives a remark about each item that could not
  // be read. Does nothing if the description already states the memory. Returns kInvalid for
  // invalid options. Propagates errors from ReadPlanFiles().
  Result<Unit> Add(const task::Description& description, task::TaskSpec& spec,
                   std::vector<std::string>& notes);

 private:
  Result<std::string> Read(const std::string& path, std::size_t max_bytes);

  std::map<std::string, Result<std::string>> files_;  // a cache, because tasks often share files
};

Result<Described> Describe(const SubmitFlags& flags, const std::vector<std::string>& words,
                           bool literal, const task::SubmitterContext& caller);
// Describes the task in `context.words`. Resolves dependencies such as afterok:@, uses the daemon's
// clock and prints warnings. Refuses tasks that cannot start (checks.h) unless flags.no_check is
// set.
Result<Described> DescribeWords(Context& context, const SubmitFlags& flags);

}  // namespace carma::cli
