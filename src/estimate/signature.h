// Signatures: submissions with equal signatures count as the same training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/values/ids.h"
#include "estimate/transformer_config.h"
#include "model/layers.h"
#include "task/describe/spec.h"

namespace carma::estimate {

// A text of 32 letters made from what a model consists of: types, shapes, parameters, dropout and
// kept bytes of its rows, but not their names or the format of the summary. Two models with equal
// fingerprints need the same memory.
std::string Fingerprint(const model::LayerList& layers);
std::string Fingerprint(const TransformerConfig& config);

// Made from the submitter, the shape of the command or script, the model's fingerprint (empty: no
// readable summary), batch size, optimizer, precision, what is known of the training, GPUs and
// conda environment.
// The shape leaves out what does not change the need for memory, so that a run with another seed or
// in another folder is still the same training: folders of paths, values of options like --seed,
// --lr, --epochs, --output (table in signature.cc), dates and long hexadecimal numbers. Everything
// else is part of it. Without a summary only the command identifies the model, so the working
// folder is included too. "1000-<32 letters>" begins with the user's id, so that no user can make
// another user's signature. Empty for a task without a command.
std::string Signature(const task::TaskSpec& spec, std::uint32_t uid,
                      const std::string& fingerprint);

// The signature as a number, by which the core recognises the same training. Never KindId{}.
core::KindId KindOf(const std::string& signature);

// A wider group: the same program of the same user (its words before the first option or value) on
// the same number of GPUs. "1000-<32 letters>".
std::string Kin(const task::TaskSpec& spec, std::uint32_t uid);

// Amounts that users change to fit a GPU.
struct Amounts {
  std::optional<std::int64_t> batch;   // samples per GPU and step
  std::optional<std::int64_t> length;  // tokens of a sample
  friend bool operator==(const Amounts&, const Amounts&) = default;
};
// The amounts that the task states, or that its command states in options with common names.
Amounts AmountsOf(const task::TaskSpec& spec);
// The signature without the amounts: narrower than Kin, wider than Signature. Empty if no amount is
// known.
std::string Relation(const task::TaskSpec& spec, std::uint32_t uid, const std::string& fingerprint);

// One word of a command line as the shape contains it; for tests and --explain.
std::string WordShape(const std::string& word);

}  // namespace carma::estimate
