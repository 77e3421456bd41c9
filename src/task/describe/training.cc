#include "task/describe/training.h"

#include <algorithm>
#include <array>

namespace carma::task {
namespace {

constexpr std::array kOptions{
    TrainingOption{"seq-len", "N", "tokens per sample (of the longest one if lengths vary)"},
    TrainingOption{
        "target-len", "N",
        "tokens of the decoder sequence in an encoder-decoder model (default: --seq-len)"},
    TrainingOption{"mean-len", "N",
                   "mean token count of samples other than the longest, if batches are not padded"},
    TrainingOption{"tokenizer-len", "N",
                   "tokenizer truncation length if --seq-len is not set (default: from "
                   "tokenizer_config.json)"},
    TrainingOption{"resolution", "N", "height and width of an image (default: from config.json)"},
    TrainingOption{"method", "NAME", "full (default), lora, qlora"},
    TrainingOption{
        "objective", "NAME",
        "sft (default), dpo (--batch-size counts pairs), grpo (--batch-size counts completions)"},
    TrainingOption{"reference", "on|off",
                   "also keep a frozen copy of the model (default: on for dpo without adapters)"},
    TrainingOption{"rollout-share", "SHARE",
                   "share of GPU memory for the engine that generates completions (vLLM: 0.3)"},
    TrainingOption{"lora-rank", "N", "rank of the adapters (default: 16)"},
    TrainingOption{
        "lora-targets", "LIST",
        "matrices with adapters: q,k,v,o,gate,up,down, attention, mlp, all (default: q,v)"},
    TrainingOption{"lora-dropout", "", "the adapters use dropout"},
    TrainingOption{"train-embeddings", "",
                   "also train the embedding and the head (modules_to_save)"},
    TrainingOption{"unprepared", "", "prepare_model_for_kbit_training is not called"},
    TrainingOption{"weights", "NAME",
                   "how weights are stored: bf16, fp16, fp32, nf4, nf4-dq, gptq4, int8 (default: "
                   "from config.json)"},
    TrainingOption{"parameters", "N",
                   "parameter count of the whole model, if config.json omits parts (default: "
                   "model.safetensors.index.json)"},
    TrainingOption{
        "frozen-parameters", "N",
        "parameter count of models that run only forward passes (default: model_index.json)"},
    TrainingOption{"encodes-images", "", "an autoencoder runs on the same GPU"},
    TrainingOption{"ema", "", "keep a second, averaged copy of the trained weights"},
    TrainingOption{"amp", "", "autocast; with fsdp: FSDP mixed precision (Trainer: bf16 or fp16)"},
    TrainingOption{"gradient-checkpointing", "NAME",
                   "none (default), attention, operators (alias: selective), full"},
    TrainingOption{"checkpoint-every", "N", "checkpoint only every N-th block (default: 1)"},
    TrainingOption{"step-in-backward", "",
                   "each gradient is applied and freed during the backward pass"},
    TrainingOption{"attention", "NAME", "flash (default; alias: sdpa), eager"},
    TrainingOption{"loss", "NAME", "stock (default), in-place, split, chunked, fused, none"},
    TrainingOption{"fused-loss", "", "the same as --loss fused"},
    TrainingOption{"fused-layers", "", "norms use fused kernels"},
    TrainingOption{"grad-accum", "", "accumulate gradients over several passes"},
    TrainingOption{"packed", "", "every sample is as long as --seq-len (the default)"},
    TrainingOption{"variable-length", "", "samples vary in length"},
    TrainingOption{"expandable-segments", "",
                   "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True is set (less fragmentation)"},
    TrainingOption{"dp", "NAME", "ddp (default), fsdp, zero1, zero2, zero3"},
    TrainingOption{"megatron", "",
                   "Megatron or NeMo: fp32 gradients and master weights; with zero1: its "
                   "distributed optimizer"},
    TrainingOption{"offload", "LIST",
                   "what is moved to host memory: optimizer, params, activations"},
    TrainingOption{"tp", "N", "GPUs that share each matrix (default: 1)"},
    TrainingOption{"sequence-parallel", "", "with --tp: also split norms and residual stream"},
    TrainingOption{"ep", "N", "data-parallel GPUs that share the experts (default: 1)"},
    TrainingOption{"pp", "N", "pipeline stages (default: 1)"},
    TrainingOption{"micro-batches", "N",
                   "micro-batches into which the pipeline splits --batch-size (default: 1)"},
    TrainingOption{"schedule", "NAME", "pipeline schedule: 1f1b (default), interleaved, gpipe"},
    TrainingOption{"stages-per-gpu", "N", "stages per GPU in an interleaved schedule (default: 2)"},
    TrainingOption{"cp", "N", "GPUs that share each sample (default: 1)"},
    TrainingOption{"batch", "N", "samples per GPU and step", true},
    TrainingOption{"optimizer", "NAME", "adamw, adamw-fused, adamw-8bit …", true},
    TrainingOption{"precision", "NAME", "fp32, amp, bf16 …", true},
    TrainingOption{"gpus", "N", "number of GPUs", true},
    TrainingOption{"deepspeed-engine", "", "use DeepSpeed's optimizer, even on one GPU", true},
};

}  // namespace

bool TrainingWord::IsName(std::string_view text) {
  return FindTrainingOption(text) != nullptr;
}

std::span<const TrainingOption> TrainingOptions() {
  return kOptions;
}

const TrainingOption* FindTrainingOption(std::string_view name) {
  const auto* found = std::ranges::find(kOptions, name, &TrainingOption::name);
  return found == kOptions.end() ? nullptr : found;
}

}  // namespace carma::task
