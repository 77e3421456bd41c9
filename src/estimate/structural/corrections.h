// Named corrections for cases in which sizes and types alone are misleading. Each correction names
// a model that needs it, and has a test of the same name (corrections_test.cc).
#pragma once

#include <span>
#include <string_view>

#include "estimate/structural/graph.h"
#include "estimate/structural/kept.h"

namespace carma::estimate {

enum class CorrectsReading { kBeforeSizes, kAfterSizes };

// While the graph is being built, corrects which tensor a row reads.
struct ReadingCorrection {
  std::string_view name;
  std::string_view model;     // the model that needs it
  std::string_view evidence;  // ratio of counted to exact bytes, before -> after; or a source
  CorrectsReading when;       // runs before or after an input is chosen by size
  // input: the newest tensor (kBeforeSizes), or the tensor chosen by size. Returns `input` if it is
  // kNobody or needs no correction.
  int (*source)(Graph& graph, Row& row, int input);
};
std::span<const ReadingCorrection> ReadingCorrections();
// Applies all reading corrections for this `when`, in order.
int CorrectReading(CorrectsReading when, Graph& graph, Row& row, int input);

// Adds the bytes kept by operations without a row, in the third pass of CountKept.
struct KeptCorrection {
  std::string_view name;
  std::string_view model;
  std::string_view evidence;
  Step step;  // kind of row that the correction checks
  void (*add)(const Graph& graph, const Row& row, Kept& kept);
};
std::span<const KeptCorrection> KeptCorrections();
// Applies all kept-bytes corrections to one row.
void Correct(const Graph& graph, const Row& row, Kept& kept);

}  // namespace carma::estimate
