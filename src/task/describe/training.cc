#include "task/describe/training.h"

#include <algorithm>
#include <iterator>

namespace carma::task {
namespace {

constexpr TrainingOption kOptions[] = {
    {"seq-len", "N", "tokens per sample (of the longest one if lengths vary)"},
    {"target-len", "N",
     "tokens of the decoder sequence in an encoder-decoder model (default: --seq-len)"},
    {"mean-len", "N",
     "mean token count of samples other than the longest, if batches are not padded"},
    {"tokenizer-len", "N",
     "tokenizer truncation length if --seq-len is not set (default: from "
     "tokenizer_config.json)"},
    {"resolution", "N", "height and width of an image (default: from config.json)"},
    {"method", "NAME", "full (default), lora, qlora"},
    {"objective", "NAME",
     "sft (default), dpo (--batch-size counts pairs), grpo (--batch-size counts completions)"},
    {"reference", "on|off",
     "also keep a frozen copy of the model (default: on for dpo without adapters)"},
    {"rollout-share", "SHARE",
     "share of GPU memory for the engine that generates completions (vLLM: 0.3)"},
    {"lora-rank", "N", "rank of the adapters (default: 16)"},
    {"lora-targets", "LIST",
     "matrices with adapters: q,k,v,o,gate,up,down, attention, mlp, all (default: q,v)"},
    {"lora-dropout", "", "the adapters use dropout"},
    {"train-embeddings", "", "also train the embedding and the head (modules_to_save)"},
    {"unprepared", "", "prepare_model_for_kbit_training is not called"},
    {"weights", "NAME",
     "how weights are stored: bf16, fp16, fp32, nf4, nf4-dq, gptq4, int8 (default: "
     "from config.json)"},
    {"parameters", "N",
     "parameter count of the whole model, if config.json omits parts (default: "
     "model.safetensors.index.json)"},
    {"frozen-parameters", "N",
     "parameter count of models that run only forward passes (default: model_index.json)"},
    {"encodes-images", "", "an autoencoder runs on the same GPU"},
    {"ema", "", "keep a second, averaged copy of the trained weights"},
    {"amp", "", "autocast; with fsdp: FSDP mixed precision (Trainer: bf16 or fp16)"},
    {"gradient-checkpointing", "NAME",
     "none (default), attention, operators (alias: selective), full"},
    {"checkpoint-every", "N", "checkpoint only every N-th block (default: 1)"},
    {"step-in-backward", "", "each gradient is applied and freed during the backward pass"},
    {"attention", "NAME", "flash (default; alias: sdpa), eager"},
    {"loss", "NAME", "stock (default), in-place, split, chunked, fused, none"},
    {"fused-loss", "", "the same as --loss fused"},
    {"fused-layers", "", "norms use fused kernels"},
    {"grad-accum", "", "accumulate gradients over several passes"},
    {"packed", "", "every sample has --seq-len tokens (default)"},
    {"variable-length", "", "samples vary in length"},
    {"expandable-segments", "",
     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True is set (less fragmentation)"},
    {"dp", "NAME", "ddp (default), fsdp, zero1, zero2, zero3"},
    {"megatron", "",
     "Megatron or NeMo: fp32 gradients and master weights; with zero1: its "
     "distributed optimizer"},
    {"offload", "LIST", "move to host memory: optimizer, params, activations"},
    {"tp", "N", "GPUs that share each matrix (default: 1)"},
    {"sequence-parallel", "", "with --tp: also split norms and residual stream"},
    {"ep", "N", "data-parallel GPUs that share the experts (default: 1)"},
    {"pp", "N", "pipeline stages (default: 1)"},
    {"micro-batches", "N",
     "micro-batches into which the pipeline splits --batch-size (default: 1)"},
    {"schedule", "NAME", "pipeline schedule: 1f1b (default), interleaved, gpipe"},
    {"stages-per-gpu", "N", "stages per GPU in an interleaved schedule (default: 2)"},
    {"cp", "N", "GPUs that share each sample (default: 1)"},
    {"batch", "N", "samples per GPU and step", true},
    {"optimizer", "NAME", "adamw, adamw-fused, adamw-8bit …", true},
    {"precision", "NAME", "fp32, amp, bf16 …", true},
    {"gpus", "N", "number of GPUs", true},
    {"deepspeed-engine", "", "use DeepSpeed's optimizer, even on one GPU", true},
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
  return found == std::end(kOptions) ? nullptr : found;
}

}  // namespace carma::task
