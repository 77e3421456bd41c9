// Reads the original system's task descriptions (.rad files): the named form and the twelve-line
// positional form. docs/use/tasks.md shows both.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::task {

class Description;

// The original system writes this value (in MB on its 40 GB cards) if no estimate is possible. The
// task then gets a whole GPU.
inline constexpr std::int64_t kRadWholeGpu = 40'000;

// Peak memory per GPU in MiB, rounded up, as given in each column. (The original system writes
// "MB" but means MiB, the unit of nvidia-smi.) A value is empty if the file lacks the column.
struct RadMemory {
  std::optional<std::int64_t> oracle;      // line 9, or "memory:" of the named form
  std::optional<std::int64_t> horus;       // line 10
  std::optional<std::int64_t> faketensor;  // line 11
  std::optional<std::int64_t> gpumemnet;   // line 12
};
// A memory column, with its name for --rad-estimate. kRadColumns lists the columns in file order.
struct RadColumn {
  std::string_view name;
  std::optional<std::int64_t> RadMemory::*mib;
};
inline constexpr std::array kRadColumns{
    RadColumn{"oracle", &RadMemory::oracle}, RadColumn{"horus", &RadMemory::horus},
    RadColumn{"faketensor", &RadMemory::faketensor}, RadColumn{"gpumemnet", &RadMemory::gpumemnet}};

struct RadFile {
  std::optional<std::string> conda_env;
  std::vector<std::string> command;  // split as a shell would do it, but run without a shell
  std::optional<std::string> model;  // as written
  std::optional<std::int64_t> batch_size;
  // Set only in the named form. The positional form also has a policy line, but it always says
  // "exclusive", and the original system never read it.
  std::optional<bool> exclusive;
  int gpus = 1;
  RadMemory memory;
};

// Detects the form and parses it. Returns kInvalid "path:line: …" if the text is not UTF-8,
// contains NUL bytes, is too long or has too few lines, if a number is out of range, or if the
// command is missing or needs a shell (; | & > < ` $().
Result<RadFile> ParseRad(std::string_view text, std::string_view path);

// Adds the file's settings to the description. A relative model path is resolved against the file's
// folder. Returns the errors of ParseRad() and of Description::Set.
Result<Unit> ApplyRad(std::string_view text, std::string_view path, Description& description);

}  // namespace carma::task
