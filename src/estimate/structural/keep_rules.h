// Two tables of facts about PyTorch: the tensors and bytes that each kind of layer keeps for its
// backward pass. They are the second pass of CountKept (kept.h). "derivatives.yaml" is PyTorch's
// tools/autograd/derivatives.yaml, which lists what every operation saves.
#pragma once

#include <span>
#include <string_view>

#include "estimate/structural/graph.h"
#include "estimate/structural/kept.h"

namespace carma::estimate {

// Which whole tensor an operation holds. It has 4 bytes per element and is counted once even if
// several operations hold it.
struct KeepRule {
  std::string_view pattern;
  bool (*fits)(const Row& row, const Tensor& read);
  Holds holds;
  std::string_view evidence;
};
// The first matching rule is used.
std::span<const KeepRule> KeepRules();
// Returns kNothing if no rule matches. read: the tensor that the row reads.
Holds HoldsOf(const Row& row, const Tensor& read);

// Memory that an operation keeps in addition. All matching rules add up.
struct BesidesRule {
  std::string_view pattern;
  std::string_view bytes;
  bool (*fits)(const Row& row);
  void (*add)(const Row& row, Kept& kept);
  std::string_view evidence;
};
std::span<const BesidesRule> BesidesRules();
// Adds the extra copies that the row keeps, and the bytes of the BesidesRules that match the row.
void AddBesides(const Graph& graph, const Row& row, Kept& kept);

}  // namespace carma::estimate
