// Parses the output of `dcgmi dmon` as it arrives. It has one row per GPU or MIG instance and
// period; lines of titles and units are repeated from time to time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

struct DmonRow {
  enum class Kind { kGpu, kGpuInstance, kComputeInstance };
  Kind kind = Kind::kGpu;
  int id = 0;       // DCGM's number of the GPU or instance
  std::string pci;  // "0000:07:00.0" from PciKey(); empty: unknown
  // The counters, power_w and energy_j; absent if not reported or impossible.
  Reading values;
  std::string objection;  // an impossible value ("SMACT is 57"); empty: none
};

// The normal form of all spellings of a PCI address. Empty if the text is not an address.
std::string PciKey(std::string_view address);

// The fields requested from `dcgmi`: "57,1002,…".
std::string DmonFieldList();

// Accepts any bytes. Rows are only accepted below titles. Columns are found by title, or by
// position in DmonFieldList() if the title is unknown, because DCGM renames titles. A cell with
// "N/A", a cut number ("12345..."), a blank, or one of DCGM's numbers for "not available" is
// absent.
class DmonParser {
 public:
  // Returns the rows completed by these bytes, in order.
  std::vector<DmonRow> Feed(std::string_view bytes);
  // The last line that was neither a title line nor a row, such as an error message of the tool, in
  // printable form.
  const std::string& remark() const { return remark_; }

 private:
  struct Column {
    std::size_t field;  // index in the table of fields; kUnknown: not read
    std::size_t from;   // where its title begins
  };
  void TakeLine(std::string_view line, std::vector<DmonRow>& rows);
  void TakeTitles(std::string_view line);
  std::vector<std::string_view> Cells(std::string_view line) const;

  std::vector<Column> columns_;
  std::string line_;       // an incomplete line
  bool too_long_ = false;  // the rest of this line is discarded
  std::string remark_;
};

}  // namespace carma::gpu
