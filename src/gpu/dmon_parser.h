// The text of `dcgmi dmon`, as it arrives: lines of titles and units, repeated now and then, and
// one row per GPU or MIG instance and period.
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
  std::string pci;  // "0000:07:00.0" as PciKey() has it; empty: not told
  // Set are the counters, power_w and energy_j, as far as they were told and can be true.
  Reading values;
  std::string objection;  // what cannot be true: "SMACT is 57"; empty: nothing
};

// One spelling for every way in which tools write a PCI address; empty for what is none.
std::string PciKey(std::string_view address);

// What to ask for: "57,1002,…".
std::string DmonFieldList();

// Takes any bytes. Rows are only believed below titles; columns are found by their titles, and one
// with an unknown title (DCGM renames them) by its place in DmonFieldList(). A cell that says
// "N/A", is cut ("12345..."), blank, or holds one of DCGM's numbers for "not available" is absent.
class DmonParser {
 public:
  // Rows that were completed by these bytes, in order.
  std::vector<DmonRow> Feed(std::string_view bytes);
  // The last line that was neither titles nor a row, such as a complaint of the tool; printable.
  const std::string& remark() const { return remark_; }

 private:
  struct Column {
    std::size_t field;  // index in the table of fields; kUnknown: passed over
    std::size_t from;   // where its title begins
  };
  void TakeLine(std::string_view line, std::vector<DmonRow>& rows);
  void TakeTitles(std::string_view line);
  std::vector<std::string_view> Cells(std::string_view line) const;

  std::vector<Column> columns_;
  std::string line_;       // begun, its end has not arrived
  bool too_long_ = false;  // the rest of this line is thrown away
  std::string remark_;
};

}  // namespace carma::gpu
