#!/usr/bin/env bash
# Makes all weights of data/estimators again, with their cards: some minutes on one core each.
# usage: train.sh TRAINER DATA   DATA/gpumemnet holds mlp, cnn and encoder, each with layers.jsonl.gz and measured_train.csv
set -euo pipefail
trainer=$(realpath "${1:?usage: train.sh TRAINER DATA}")
data=${2:?usage: train.sh TRAINER DATA}
out=$(realpath "$(dirname "$0")/../../data/estimators")
source='GPUMemNet data sets (Datasets/ of github.com/itu-rad/GPUMemNet, E. Yousefzadeh-Asl-Miandoab and others, IT University
  of Copenhagen, 2025; arXiv 2602.17817), CC BY 4.0; channels and shapes recovered from them, runs that filled the card
  marked, 75 % of the models (encoders 50 %), the others kept apart.'
source=$(tr -s '\n ' ' ' <<<"$source")

cd "$data"
# train FOLDER KIND FAMILY FLAG…
train() {
  "$trainer" --kind "$2" --family "$3" --layers "gpumemnet/$1/layers.jsonl.gz" --measured "gpumemnet/$1/measured_train.csv" \
    "${@:4}" --data "$source" --out "$out"
}
train mlp mlp mlp --folds 4
train cnn mlp cnn --folds 4
train encoder mlp transformer --folds 5
train mlp transformer mlp --folds 2 --members 2 --epochs 25
train cnn transformer cnn --folds 2 --members 2 --epochs 25
train encoder transformer transformer --folds 5 --members 4
