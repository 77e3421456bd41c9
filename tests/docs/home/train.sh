#!/bin/bash
#CARMA --job-name resnet --gpus 1 --gpu-mem 14G --time 6h
#CARMA --output logs/%x-%j.out
python3 train.py --batch-size 128 "$@"
