// Parses the output of `dcgmi dmon` as it arrives: one row per GPU or MIG instance in each period.
// The header and unit lines are repeated from time to time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

struct DmonRow {
  enum class Kind { kGpu, kGpuInstance, kComputeInstance };
  Kind kind = Kind::kGpu;
  int id = 0;       // DCGM's number for the GPU or instance
  std::string pci;  // "0000:07:00.0" from PciKey(); empty: unknown
  // The counters, power_w and energy_j. Absent if not reported or impossible.
  Reading values;
  std::string objection;  // an impossible value ("SMACT is 57"); empty: none
};

// The normalised form of a PCI address in any spelling. Empty if the text is not an address.
std::string PciKey(std::string_view address);

// Which fields to request. DCGM refuses the whole list if a GPU lacks one of its fields.
enum class DmonFields {
  kAll,
  kCommon,  // without FP64 activity and NVLink, which many GPUs since Ampere lack
  kFew,     // only PCI address, SM activity, power and energy
};

// The list of fields to request from `dcgmi`: "57,1002,…".
std::string DmonFieldList(DmonFields fields = DmonFields::kAll);

// Accepts any bytes. Ignores rows before the first line of titles. Finds columns by title, or by
// their position in DmonFieldList() if the title is unknown, because DCGM has renamed titles. A
// value is absent if its cell is blank or contains "N/A", a truncated number ("12345...") or one of
// DCGM's numbers for "not available".
class DmonParser {
 public:
  explicit DmonParser(DmonFields fields = DmonFields::kAll) : fields_(fields) {}
  // Returns the rows completed by these bytes, in order.
  std::vector<DmonRow> Feed(std::string_view bytes);
  // The last line that was neither a title line nor a row, in printable form. It may be an error
  // message from the tool.
  const std::string& remark() const { return remark_; }

 private:
  struct Column {
    std::size_t field;  // index in the field table; kUnknown: not read
    std::size_t from;   // where its title begins
  };
  void TakeLine(std::string_view line, std::vector<DmonRow>& rows);
  void TakeTitles(std::string_view line);
  std::vector<std::string_view> Cells(std::string_view line) const;

  DmonFields fields_;
  std::vector<Column> columns_;
  std::string line_;       // an incomplete line
  bool too_long_ = false;  // the rest of this line is discarded
  std::string remark_;
};

}  // namespace carma::gpu
