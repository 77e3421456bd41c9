#!/bin/bash
# What `carma estimate` and `carma submit` read of a fine-tuning script: the model's folder, how it is trained, length and number of samples.
#CARMA --job-name llama-lora --gpus 1 --time 6h
torchrun --nproc_per_node 1 finetune.py --model_name_or_path data/examples/llama-8b --torch_dtype bfloat16 --use_peft --lora_r 16 \
  --per_device_train_batch_size 2 --max_length 2048 --bf16 --gradient_checkpointing --num_train_epochs 1
