// Tables of facts about PyTorch: which tensors and bytes each kind of layer keeps for its backward
// pass. This is the second pass of CountKept (kept.h). "derivatives.yaml" stands for PyTorch's
// tools/autograd/derivatives.yaml, which lists what every operation saves.
#pragma once

#include <span>
#include <string_view>

#include "estimate/structural/graph.h"
#include "estimate/structural/kept.h"

namespace carma::estimate {

// Which tensor an operation keeps as a whole. The tensor has 4 bytes per element, and is counted
// once even if several operations keep it.
struct KeepRule {
  std::string_view pattern;
  bool (*fits)(const Row& row, const Tensor& read);
  Holds holds;
  std::string_view evidence;
};
// The rules in order of precedence. Only the first matching rule applies.
std::span<const KeepRule> KeepRules();
// The tensor that the row keeps; kNothing if no rule matches. read: the tensor that the row reads.
Holds HoldsOf(const Row& row, const Tensor& read);

// Additional memory that an operation keeps. The bytes of all matching rules are added up.
struct BesidesRule {
  std::string_view pattern;
  std::string_view bytes;
  bool (*fits)(const Row& row);
  void (*add)(const Row& row, Kept& kept);
  std::string_view evidence;
};
std::span<const BesidesRule> BesidesRules();
// Adds the extra copies that the row keeps, and the bytes of each matching BesidesRule.
void AddBesides(const Graph& graph, const Row& row, Kept& kept);

}  // namespace carma::estimate
