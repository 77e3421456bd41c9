// Parses the output of `dcgmi dmon` as it arrives: lines of titles and units, repeated now and
// then, and one row per GPU or MIG instance and period.
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
  int id = 0;       // DCGM's own number of the GPU or instance
  std::string pci;  // "0000:07:00.0" from PciKey(); empty: unknown
  // The counters, power_w and energy_j, if reported and possible.
  Reading values;
  std::string objection;  // an impossible value: "SMACT is 57"; or empty
};

// One normal form for all spellings of a PCI address; empty: not an address.
std::string PciKey(std::string_view address);

// The requested fields: "57,1002,…".
std::string DmonFieldList();

// Takes any bytes. Rows are only accepted below titles; columns are found by title, or by position
// in DmonFieldList() if the title is unknown (DCGM renames them). A cell with "N/A", a cut number
// ("12345..."), a blank, or one of DCGM's numbers for "not available" is absent.
class DmonParser {
 public:
  // Rows completed by these bytes, in order.
  std::vector<DmonRow> Feed(std::string_view bytes);
  // The last line that was neither titles nor a row, such as an error of the tool; printable.
  const std::string& remark() const { return remark_; }

 private:
  struct Column {
    std::size_t field;  // index in the table of fields; kUnknown: ignored
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
