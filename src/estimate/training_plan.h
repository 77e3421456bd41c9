// Describes how a transformer is trained: all settings that affect memory but are not in
// config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/words.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

enum class Method { kFull, kLora };
inline constexpr std::pair<Method, std::string_view> kMethodWords[] = {{Method::kFull, "full"},
                                                                       {Method::kLora, "lora"}};

// The training objective. kPreferences (DPO) compares a better answer with a worse one, so each
// pair counts as two samples. kGroups (GRPO) compares answers that the model has just generated.
enum class Objective { kTokens, kPreferences, kGroups };
inline constexpr std::pair<Objective, std::string_view> kObjectiveWords[] = {
    {Objective::kTokens, "sft"}, {Objective::kPreferences, "dpo"}, {Objective::kGroups, "grpo"}};

// The optimizer and the bytes that it keeps per trained parameter. g: size of a gradient.
enum class StepOptimizer {
  kAdam,       // 2 g, and g for the temporary copy of its step (foreach)
  kAdamFused,  // 2 g
  kAdam8Bit,   // 2
  kAdam4Bit,   // 1
  kPagedAdam,  // moves to host memory when GPU memory is short
  kMomentum,   // g, and g for the step
  kSgd,        // nothing
  kFactored,   // Adafactor, LOMO: next to nothing
};
inline constexpr std::pair<StepOptimizer, std::string_view> kStepOptimizerWords[] = {
    {StepOptimizer::kAdam, "adamw"},
    {StepOptimizer::kAdamFused, "adamw-fused"},
    {StepOptimizer::kAdam8Bit, "adamw-8bit"},
    {StepOptimizer::kAdam4Bit, "adamw-4bit"},
    {StepOptimizer::kPagedAdam, "paged-adamw"},
    {StepOptimizer::kMomentum, "sgd-momentum"},
    {StepOptimizer::kSgd, "sgd"},
    {StepOptimizer::kFactored, "adafactor"},
    {StepOptimizer::kAdam, "adam"},
    {StepOptimizer::kAdam, "adamw-torch"},
    {StepOptimizer::kAdamFused, "adamw-torch-fused"},
    {StepOptimizer::kAdam8Bit, "adamw-bnb-8bit"},
    {StepOptimizer::kPagedAdam, "paged-adamw-8bit"},
    {StepOptimizer::kPagedAdam, "paged-adamw-32bit"},
    {StepOptimizer::kFactored, "lomo"},
    {StepOptimizer::kFactored, "adalomo"},
    {StepOptimizer::kAdam, "adamw-hf"},
    {StepOptimizer::kAdam, "adamw-anyprecision"},
    {StepOptimizer::kAdamFused, "adamw-apex-fused"},
    {StepOptimizer::kAdam8Bit, "adamw-torch-8bit"},
    {StepOptimizer::kAdam8Bit, "adam-8bit"},
    {StepOptimizer::kAdam4Bit, "adamw-torch-4bit"},
    {StepOptimizer::kPagedAdam, "paged-adam-8bit"},
    {StepOptimizer::kAdam, "radam"},
    {StepOptimizer::kAdam, "nadam"},
    {StepOptimizer::kAdam, "adamax"},
    {StepOptimizer::kAdam, "lamb"},
    {StepOptimizer::kMomentum, "momentum"},
    {StepOptimizer::kMomentum, "rmsprop"},
    {StepOptimizer::kMomentum, "adagrad"},
    {StepOptimizer::kMomentum, "lion"},
    {StepOptimizer::kMomentum, "lion-32bit"},
    {StepOptimizer::kAdam4Bit, "lion-8bit"},
    {StepOptimizer::kPagedAdam, "paged-lion-8bit"},
    {StepOptimizer::kPagedAdam, "paged-lion-32bit"}};

// Which part of a block is recomputed in the backward pass.
enum class Checkpointing {
  kNone,
  kAttention,  // attention's core; flash attention recomputes it anyway (Megatron's "selective")
  // Recomputes everything except attention and every second matrix product (torchtitan's
  // "selective" with "op").
  kOperators,
  kFull  // the whole block
};
inline constexpr std::pair<Checkpointing, std::string_view> kCheckpointingWords[] = {
    {Checkpointing::kNone, "none"},
    {Checkpointing::kAttention, "attention"},
    {Checkpointing::kOperators, "operators"},
    {Checkpointing::kFull, "full"},
    {Checkpointing::kOperators, "selective"}};

// How a pipeline orders the forward and backward passes of its micro-batches.
enum class Schedule {
  k1F1B,         // alternates passes once the pipeline is full
  kInterleaved,  // 1F1B with several smaller stages on each GPU
  kGpipe         // all forward passes first
};
inline constexpr std::pair<Schedule, std::string_view> kScheduleWords[] = {
    {Schedule::k1F1B, "1f1b"},
    {Schedule::kInterleaved, "interleaved"},
    {Schedule::kGpipe, "gpipe"},
    {Schedule::kInterleaved, "interleaved1f1b"},
    {Schedule::kInterleaved, "interleaved-1f1b"}};

enum class Attention { kFlash, kEager };  // kFlash includes PyTorch's own fused kernels (sdpa)
inline constexpr std::pair<Attention, std::string_view> kAttentionWords[] = {
    {Attention::kFlash, "flash"}, {Attention::kEager, "eager"}, {Attention::kFlash, "sdpa"}};

// How the loss processes the logits over the vocabulary.
enum class Loss {
  kStock,    // Hugging Face: an fp32 copy, its log-softmax, the gradients of both
  kInPlace,  // one kernel that overwrites the copy (Triton cross entropy)
  kSplit,    // 16-bit logits, cast in chunks (LitGPT)
  kChunked,  // head and loss for a chunk of tokens at a time (torchtune)
  kFused,    // head and loss in one kernel, so the logits are never stored (Liger)
  kNone      // a head of a few classes: no logits over the vocabulary
};
inline constexpr std::pair<Loss, std::string_view> kLossWords[] = {
    {Loss::kStock, "stock"},     {Loss::kInPlace, "in-place"}, {Loss::kSplit, "split"},
    {Loss::kChunked, "chunked"}, {Loss::kFused, "fused"},      {Loss::kNone, "none"}};

enum class DataParallel { kDdp, kFsdp, kZero1, kZero2, kZero3 };
inline constexpr std::pair<DataParallel, std::string_view> kDataParallelWords[] = {
    {DataParallel::kDdp, "ddp"},
    {DataParallel::kFsdp, "fsdp"},
    {DataParallel::kZero1, "zero1"},
    {DataParallel::kZero2, "zero2"},
    {DataParallel::kZero3, "zero3"}};

// Which matrices have an adapter.
struct LoraTargets {
  bool query = false, key = false, value = false, output = false;
  bool gate = false, up = false, down = false;
};
// Parses a comma-separated list of q, k, v, o, gate, up and down (each with or without "_proj"),
// qkv, attention, mlp and all. Returns kInvalid, naming the word, if a word is invalid.
Result<LoraTargets> ParseLoraTargets(std::string_view words);

struct TrainingPlan {
  std::int64_t sequence = 2048;        // tokens in the longest sample
  std::int64_t batch = 1;              // samples per GPU and step
  std::int64_t parameters = 0;         // model parameters; 0: computed from config.json
  std::int64_t frozen_parameters = 0;  // parameters of additional models that only run forward
  bool averages = false;               // a second copy of the trained weights (EMA)
  bool encodes_images = false;         // an autoencoder turns images into latents on the same GPU
  // Number of decoder tokens, if a decoder reads an encoder's output. If empty, the decoder has as
  // many tokens as the encoder.
  std::optional<std::int64_t> target;
  // Mean length of all samples except the longest, if micro-batches are not padded. Empty if all
  // samples are padded or packed to the sequence length.
  std::optional<std::int64_t> mean_length;
  bool accumulates = false;      // gradients persist during the next pass (gradient accumulation)
  bool variable_length = false;  // samples are padded or packed to varying lengths
  Objective objective = Objective::kTokens;
  bool reference = false;    // a frozen copy of the model is also on the GPU
  double rollout_share = 0;  // share of GPU memory for an engine that generates answers
  Method method = Method::kFull;
  Quantisation quantisation = Quantisation::kNone;
  Dtype weights = Dtype::kBf16;
  bool amp = false;                  // autocast to 16 bits, or FSDP's mixed precision
  bool fp32_residual = false;        // norms and the residual stream were cast to fp32
  bool fp32_rest = false;            // so were embedding and head (prepare_model_for_kbit_training)
  bool keeps_frozen_inputs = false;  // as quantised layers did in bitsandbytes until 2024
  std::int64_t lora_rank = 16;
  LoraTargets lora_targets;
  bool lora_dropout = false;
  bool lora_16bit = false;         // adapters in the weights' precision; PEFT uses fp32
  bool trains_embeddings = false;  // modules_to_save: embedding and head, as copies
  StepOptimizer optimizer = StepOptimizer::kAdam;
  bool step_in_backward = false;  // each gradient is used and freed immediately
  Checkpointing checkpointing = Checkpointing::kNone;
  std::int64_t checkpoint_every = 1;  // with kFull: every n-th block; other blocks keep everything
  Attention attention = Attention::kFlash;
  Loss loss = Loss::kStock;
  bool fused_layers = false;  // norms and adapters run in fused kernels (Triton, torch.compile)
  DataParallel data_parallel = DataParallel::kDdp;
  std::int64_t ranks = 1;  // number of GPUs used for data_parallel
  bool deepspeed = false;  // DeepSpeed's optimizer, even on one GPU; implied by ZeRO
  // Trains like Megatron and NeMo: 16-bit weights with fp32 gradients, master weights and states,
  // and custom kernels. Together with kZero1, this is Megatron's distributed optimizer.
  bool megatron = false;
  bool offload_optimizer = false;
  bool offload_parameters = false;
  bool offload_activations = false;
  bool unties_head = false;          // separate head even though config.json ties it (LitGPT)
  bool saves_whole_model = false;    // gathers all weights on one GPU to save them
  bool expandable_segments = false;  // PyTorch's allocator grows blocks in place
  std::int64_t tensor_parallel = 1;
  bool sequence_parallel = false;    // tensors that --tp leaves whole are split by token
  std::int64_t expert_parallel = 1;  // GPUs of a data-parallel group that share the experts
  std::int64_t pipeline = 1;         // stages
  std::int64_t in_flight = 0;  // micro-batches kept by the first stage; 0: as the schedule implies
  std::int64_t micro_batches = 0;  // number of parts of `batch`; 0: `batch` is one micro-batch
  Schedule schedule = Schedule::k1F1B;
  std::int64_t stages_per_gpu = 2;  // for an interleaved schedule
  std::int64_t context_parallel = 1;
  std::optional<double> gpu_mib;  // GPU memory; empty: unknown
};

// Applies the choices that Megatron always makes: fused norms, an in-place loss, no autocast.
void UseMegatron(TrainingPlan& plan);

}  // namespace carma::estimate

namespace carma {
template <>
inline constexpr base::Words<estimate::Method> base::kWordsOf<estimate::Method> =
    estimate::kMethodWords;
template <>
inline constexpr base::Words<estimate::Objective> base::kWordsOf<estimate::Objective> =
    estimate::kObjectiveWords;
template <>
inline constexpr base::Words<estimate::StepOptimizer> base::kWordsOf<estimate::StepOptimizer> =
    estimate::kStepOptimizerWords;
template <>
inline constexpr base::Words<estimate::Checkpointing> base::kWordsOf<estimate::Checkpointing> =
    estimate::kCheckpointingWords;
template <>
inline constexpr base::Words<estimate::Schedule> base::kWordsOf<estimate::Schedule> =
    estimate::kScheduleWords;
template <>
inline constexpr base::Words<estimate::Attention> base::kWordsOf<estimate::Attention> =
    estimate::kAttentionWords;
template <>
inline constexpr base::Words<estimate::Loss> base::kWordsOf<estimate::Loss> = estimate::kLossWords;
template <>
inline constexpr base::Words<estimate::DataParallel> base::kWordsOf<estimate::DataParallel> =
    estimate::kDataParallelWords;
}  // namespace carma
