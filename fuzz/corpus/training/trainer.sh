#!/bin/bash
#CARMA --gpus 2
MODEL=lab/small   # of the hub
ARGS=(--per_device_train_batch_size 4
  --gradient_accumulation_steps=8 --bf16 True)
if [ -n "$1" ]; then LEN=$1; else LEN=${2:-1024}; fi
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --model_name_or_path "$MODEL" \
  "${ARGS[@]}" --max_seq_length $LEN --learning_rate 1e-5 --fsdp "full_shard auto_wrap" 2>&1 | tee log
