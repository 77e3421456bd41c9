#include "task/describe/training.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::array kOptions{
    TrainingOption{"seq-len", "N", "tokens of a sample, of the longest if they vary"},
    TrainingOption{"target-len", "N",
                   "the same of what a decoder writes that reads an encoder (--seq-len)"},
    TrainingOption{"mean-len", "N",
                   "tokens of the other samples, where a batch is laid out without padding"},
    TrainingOption{"tokenizer-len", "N",
                   "the tokenizer cuts longer samples; counts without --seq-len (default: of the "
                   "tokenizer_config.json)"},
    TrainingOption{"resolution", "N",
                   "height and width of an image (default: as config.json says)"},
    TrainingOption{"method", "NAME", "full, lora, qlora (full)"},
    TrainingOption{"objective", "NAME",
                   "sft, dpo (--batch counts pairs), grpo (--batch counts answers) (sft)"},
    TrainingOption{"reference", "on|off",
                   "a frozen copy of the model beside (on for dpo without adapters, else off)"},
    TrainingOption{"rollout-share", "SHARE",
                   "of the GPU's memory for the engine that writes answers (vLLM beside: 0.3)"},
    TrainingOption{"lora-rank", "N", "rank of the adapters (16)"},
    TrainingOption{"lora-targets", "LIST",
                   "matrices with adapters: q,k,v,o,gate,up,down, attention, mlp, all (q,v)"},
    TrainingOption{"lora-dropout", "", "the adapters drop inputs out"},
    TrainingOption{"train-embeddings", "", "modules_to_save: embedding and head"},
    TrainingOption{"unprepared", "", "without prepare_model_for_kbit_training"},
    TrainingOption{"weights", "NAME",
                   "how weights are stored: bf16, fp16, fp32, nf4, nf4-dq, gptq4, int8 (default: "
                   "as config.json says)"},
    TrainingOption{"parameters", "N",
                   "of the whole model, where config.json leaves parts out (default: of its "
                   "model.safetensors.index.json)"},
    TrainingOption{"frozen-parameters", "N",
                   "of models beside that only run forward (default: of its model_index.json)"},
    TrainingOption{"encodes-images", "", "an autoencoder runs on the same GPU"},
    TrainingOption{"ema", "", "a second, averaged copy of the trained weights"},
    TrainingOption{"amp", "", "autocast; with fsdp: its mixed precision (Trainer: bf16 or fp16)"},
    TrainingOption{"gradient-checkpointing", "NAME",
                   "none, attention, operators (also selective), full (none)"},
    TrainingOption{"checkpoint-every", "N", "checkpoint only every N-th block (1)"},
    TrainingOption{"step-in-backward", "",
                   "each gradient is used and freed inside the backward pass"},
    TrainingOption{"attention", "NAME", "flash (also sdpa), eager (flash)"},
    TrainingOption{"loss", "NAME", "stock, in-place, split, chunked, fused, none (stock)"},
    TrainingOption{"fused-loss", "", "--loss fused"},
    TrainingOption{"fused-layers", "", "norms by fused kernels"},
    TrainingOption{"grad-accum", "", "gradients are kept over several passes"},
    TrainingOption{"packed", "", "every sample as long as --seq-len: what is assumed"},
    TrainingOption{"variable-length", "", "samples of changing lengths"},
    TrainingOption{"expandable-segments", "",
                   "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: fewer gaps"},
    TrainingOption{"dp", "NAME", "ddp, fsdp, zero1, zero2, zero3 (ddp)"},
    TrainingOption{
        "megatron", "",
        "Megatron or NeMo: fp32 gradients and masters; with zero1 its distributed optimizer"},
    TrainingOption{"offload", "LIST", "optimizer, params, activations to the host's memory"},
    TrainingOption{"tp", "N", "GPUs that share each matrix (1)"},
    TrainingOption{"sequence-parallel", "", "with --tp: norms and the stream are split as well"},
    TrainingOption{"ep", "N", "GPUs of --dp that share the experts (1)"},
    TrainingOption{"pp", "N", "pipeline stages (1)"},
    TrainingOption{"micro-batches", "N",
                   "that a pipeline cuts --batch into (default: --batch is one of them)"},
    TrainingOption{"schedule", "NAME", "of the pipeline: 1f1b, interleaved, gpipe (1f1b)"},
    TrainingOption{"stages-per-gpu", "N", "of an interleaved schedule (2)"},
    TrainingOption{"cp", "N", "GPUs that share each sample (1)"},
    TrainingOption{"batch", "N", "samples per GPU and step", true},
    TrainingOption{"optimizer", "NAME", "adamw, adamw-fused, adamw-8bit …", true},
    TrainingOption{"precision", "NAME", "fp32, amp, bf16 …", true},
    TrainingOption{"gpus", "N", "GPUs of the task", true},
    TrainingOption{"deepspeed-engine", "", "DeepSpeed's optimizer, even on one GPU", true},
};

}  // namespace

bool TrainingWord::IsName(std::string_view text) {
  return FindTrainingOption(text) != nullptr;
}

bool TrainingWord::IsShortLine(std::string_view text) {
  return base::IsUtf8(text) && !base::HasControls(text);
}

std::span<const TrainingOption> TrainingOptions() {
  return kOptions;
}

const TrainingOption* FindTrainingOption(std::string_view name) {
  const auto* found = std::ranges::find(kOptions, name, &TrainingOption::name);
  return found == kOptions.end() ? nullptr : found;
}

}  // namespace carma::task
