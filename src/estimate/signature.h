// Signatures: two submissions are the same thing if their signatures are equal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/values/ids.h"
#include "estimate/transformer_config.h"
#include "model/layers.h"
#include "task/describe/spec.h"

namespace carma::estimate {

// Text of 32 letters that stands for what a model is made of: types, shapes, parameters, dropout
// and kept bytes of its rows; not the names, nor how the summary was written down. Two models with
// one fingerprint need the same memory.
std::string Fingerprint(const model::LayerList& layers);
std::string Fingerprint(const TransformerConfig& config);

// The submitter, the shape of the command or script, the model's fingerprint (empty: no readable
// summary), batch size, optimizer, precision, what is known of the training, GPUs, conda
// environment.
// Shape: what does not change the need for memory is left out, so that another seed or another
// folder is still the same thing: folders of paths, values of options like --seed, --lr, --epochs,
// --output (table in signature.cc), dates and long hexadecimal numbers. Everything else counts.
// Without a summary nothing but the command tells the model, so the working folder counts too.
// "1000-<32 letters>": nobody can make somebody else's. Empty for a task without user's command.
std::string Signature(const task::TaskSpec& spec, std::uint32_t uid,
                      const std::string& fingerprint);

// The same as a number, by which the core knows the same thing. Never KindId{} for a signature.
core::KindId KindOf(const std::string& signature);

// Wider: the same user's same program (its words before the first option or value), on as many
// GPUs. "1000-<32 letters>".
std::string Kin(const task::TaskSpec& spec, std::uint32_t uid);

// Amounts that users change to fit a GPU.
struct Amounts {
  std::optional<std::int64_t> batch;   // samples per GPU and step
  std::optional<std::int64_t> length;  // tokens of a sample
  friend bool operator==(const Amounts&, const Amounts&) = default;
};
// From the task, or from options of its command with usual names.
Amounts AmountsOf(const task::TaskSpec& spec);
// The signature without the amounts, between Signature and Kin. Empty if no amount is known.
std::string Relation(const task::TaskSpec& spec, std::uint32_t uid, const std::string& fingerprint);

// One word of a command line by itself, as the shape has it; for tests and --explain.
std::string WordShape(const std::string& word);

}  // namespace carma::estimate
