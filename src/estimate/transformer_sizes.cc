// Computes the sizes of a model's parts from the numbers in its config.json.
#include <algorithm>

#include "estimate/transformer_config.h"

namespace carma::estimate {

double TransformerConfig::QueryWidth() const {
  return static_cast<double>(heads) * static_cast<double>(head_width);
}

double TransformerConfig::KeyValueWidth() const {
  return static_cast<double>(kv_heads) * static_cast<double>(head_width);
}

double TransformerConfig::ValueWidth() const {
  return static_cast<double>(kv_heads) *
         static_cast<double>(value_width > 0 ? value_width : head_width);
}

double TransformerConfig::OutputWidth() const {
  return static_cast<double>(heads) *
         static_cast<double>(value_width > 0 ? value_width : head_width);
}

double TransformerConfig::TableWidth() const {
  return static_cast<double>(table_width > 0 ? table_width : hidden);
}

double TransformerConfig::Attentions() const {
  return 1 + static_cast<double>(decoder_layers) / static_cast<double>(layers);
}

namespace {

// Averages over all blocks, because only some of them may have experts.
double Mean(const TransformerConfig& config, double with_experts) {
  if (config.dense_layers == 0) return with_experts;
  const double dense =
      static_cast<double>(config.dense_layers) / static_cast<double>(config.layers);
  return dense * static_cast<double>(config.dense_forward) + (1 - dense) * with_experts;
}

}  // namespace

double TransformerConfig::ActiveForward() const {
  return Mean(*this, static_cast<double>(feed_forward * active_experts + shared_forward));
}

double TransformerConfig::ExpertParameters() const {
  if (experts <= 1) return 0;
  const double with_experts = 1 - static_cast<double>(dense_layers) / static_cast<double>(layers);
  return with_experts * (gated ? 3 : 2) * static_cast<double>(hidden) *
         static_cast<double>(feed_forward * experts);
}

double TransformerConfig::BlockParameters() const {
  if (block_parameters > 0) return block_parameters;
  if (blocks) {
    double most = 0;
    for (const BlockKeeps& block : blocks->blocks) most = std::max(most, block.parameters);
    return most;
  }
  const auto width = static_cast<double>(hidden);
  const double matrices = gated ? 3 : 2;
  const double forward =
      Mean(*this, static_cast<double>(feed_forward) * static_cast<double>(experts) +
                      static_cast<double>(shared_forward));
  const double attention =
      latent_parameters > 0
          ? latent_parameters
          : width * (QueryWidth() + KeyValueWidth() + ValueWidth() + OutputWidth());
  return Attentions() * attention + matrices * width * forward;
}

double TransformerConfig::MatrixParameters() const {
  if (blocks) return blocks->Parameters();
  return static_cast<double>(repeats_block ? 1 : layers) * BlockParameters();
}

double TransformerConfig::TotalParameters() const {
  if (stated_parameters) return *stated_parameters;
  const auto width = static_cast<double>(hidden);
  const double tables = static_cast<double>(vocabulary) * (tied ? 1 : 2) * TableWidth() +
                        (table_width > 0 ? 2 * TableWidth() * width : 0);
  const double written = static_cast<double>(decoder_positions > 0 ? decoder_positions : positions);
  const double places = static_cast<double>(positions) + (decoder_layers > 0 ? written : 0);
  const double scales = static_cast<double>(norms * layers + 1) * (rms_norm ? 1 : 2);
  const double routers = experts > 1 ? static_cast<double>(layers * experts) : 0;
  double beside = other_parameters;
  for (const TransformerConfig& tower : towers) beside += tower.TotalParameters();
  return MatrixParameters() + tables + width * (places + scales + routers) + beside;
}

}  // namespace carma::estimate
