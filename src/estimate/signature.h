// Computes signatures. Submissions with equal signatures are treated as the same training job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/values/ids.h"
#include "estimate/transformer_config.h"
#include "model/layers.h"
#include "task/describe/spec.h"

namespace carma::estimate {

// A hash of 32 hex digits over the types, shapes, parameters, dropout and kept bytes of a model's
// rows. Row names and the summary's format are not included. Models with equal fingerprints need
// the same memory.
std::string Fingerprint(const model::LayerList& layers);
std::string Fingerprint(const TransformerConfig& config);

// Identifies a training job by its submitter, the shape of its command or script, the model's
// fingerprint (empty without a readable summary), batch size, optimizer, precision, known training
// settings, GPUs and conda environment. A run with a different seed or in a different folder counts
// as the same training job, because the shape omits what does not affect memory: folders in paths,
// values of options like --seed, --lr, --epochs, --output (table in signature.cc), dates and long
// hexadecimal numbers. Without a summary, only the command identifies the model, so the working
// folder is included too.
//
// The result, "1000-<32 hex digits>", begins with the UID, so no user can produce another user's
// signature. Empty for a task without a command.
std::string Signature(const task::TaskSpec& spec, std::uint32_t uid,
                      const std::string& fingerprint);

// The signature as a number, for the core. Never KindId{}.
core::KindId KindOf(const std::string& signature);

// Identifies all runs of one program by the same user on the same number of GPUs, as "1000-<32 hex
// digits>". The program is the first Python file or module. If there is none, it is the first
// shell script or word of the command or, for a script, the task's name.
std::string Kin(const task::TaskSpec& spec, std::uint32_t uid);

// Amounts that users change so that a task fits on a GPU.
struct Amounts {
  std::optional<std::int64_t> batch;   // samples per GPU and step
  std::optional<std::int64_t> length;  // tokens per sample
  friend bool operator==(const Amounts&, const Amounts&) = default;
};
// The amounts from the task's description, or from options with common names in its command.
Amounts AmountsOf(const task::TaskSpec& spec);
// The signature without the amounts. More specific than Kin, less specific than Signature. Empty if
// no amount is known.
std::string Relation(const task::TaskSpec& spec, std::uint32_t uid, const std::string& fingerprint);

// Returns a command-line word as it appears in the shape (see Signature). Used by tests and
// --explain.
std::string WordShape(const std::string& word);

}  // namespace carma::estimate
