// Computes signatures. Submissions with equal signatures count as the same training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/values/ids.h"
#include "estimate/transformer_config.h"
#include "model/layers.h"
#include "task/describe/spec.h"

namespace carma::estimate {

// 32 letters computed from the types, shapes, parameters, dropout and kept bytes of a model's rows,
// but not from their names or the format of the summary. Models with equal fingerprints need the
// same memory.
std::string Fingerprint(const model::LayerList& layers);
std::string Fingerprint(const TransformerConfig& config);

// Computed from the submitter, the shape of the command or script, the model's fingerprint (empty:
// no readable summary), batch size, optimizer, precision, known facts of the training, GPUs and
// conda environment. The shape leaves out what does not change the memory need, so a run with
// another seed or in another folder is still the same training: folders of paths, values of options
// like --seed, --lr, --epochs, --output (table in signature.cc), dates and long hexadecimal
// numbers. Without a summary only the command identifies the model, so the working folder is
// included too. The result, "1000-<32 letters>", begins with the user's id, so no user can make
// another user's signature. Empty for a task without a command.
std::string Signature(const task::TaskSpec& spec, std::uint32_t uid,
                      const std::string& fingerprint);

// The signature as a number, for the core. Never KindId{}.
core::KindId KindOf(const std::string& signature);

// Identifies a wider group as "1000-<32 letters>": the same user, the same program (its words
// before the first option or value) and the same number of GPUs.
std::string Kin(const task::TaskSpec& spec, std::uint32_t uid);

// Amounts that users change to fit a GPU.
struct Amounts {
  std::optional<std::int64_t> batch;   // samples per GPU and step
  std::optional<std::int64_t> length;  // tokens of a sample
  friend bool operator==(const Amounts&, const Amounts&) = default;
};
// The amounts from the task's description, or from options with common names in its command.
Amounts AmountsOf(const task::TaskSpec& spec);
// The signature without the amounts: more specific than Kin, less specific than Signature. Empty if
// no amount is known.
std::string Relation(const task::TaskSpec& spec, std::uint32_t uid, const std::string& fingerprint);

// A word of a command line as it appears in the shape; for tests and --explain.
std::string WordShape(const std::string& word);

}  // namespace carma::estimate
