#!/usr/bin/env bash
# Trains all weights of data/estimators again and writes their cards. Each takes some minutes on one core.
# usage: train.sh TRAINER DATA [DATA …] [--out FOLDER] [--overwrite] [--source TEXT]
#   DATA/gpumemnet contains mlp, cnn and encoder, each with layers.jsonl.gz and measured_train.csv. Further sources may have only some of
#                these and are combined with the first. The output of carma_collect.py has the same columns.
#   --out        output folder for the weights (default: data/estimators, which CARMA ships)
#   --overwrite  replace existing weights; without it, the script asks at a terminal and otherwise replaces nothing
#   --source     what the cards say about the data (default: the published data sets)
set -euo pipefail
usage='usage: train.sh TRAINER DATA [DATA …] [--out FOLDER] [--overwrite] [--source TEXT]'
trainer=$(realpath "${1:?$usage}")
sources=("$(realpath "${2:?$usage}")")
shift 2
while [ $# -gt 0 ] && [[ $1 != --* ]]; do
  sources+=("$(realpath "$1")")
  shift
done
out=$(realpath "$(dirname "$0")/../../data/estimators")
overwrite=no
source='GPUMemNet data sets (Datasets/ of github.com/itu-rad/GPUMemNet, E. Yousefzadeh-Asl-Miandoab and others, IT University
  of Copenhagen, 2025; arXiv 2602.17817), CC BY 4.0. Channels and shapes were recovered from the data, and runs that filled
  the GPU are marked. 75 % of the models (encoders: 50 %) were used; the other models were held out.'
while [ $# -gt 0 ]; do
  case $1 in
    --out) mkdir -p "${2:?$usage}"; out=$(realpath "$2"); shift 2 ;;
    --source) source=${2:?$usage}; shift 2 ;;
    --overwrite) overwrite=yes; shift ;;
    *) echo "train.sh: '$1': $usage" >&2; exit 2 ;;
  esac
done
source=$(tr -s '\n ' ' ' <<<"$source")

if [ $overwrite = no ] && compgen -G "$out/*.safetensors" >/dev/null; then
  if [ ! -t 0 ]; then
    echo "train.sh: $out holds weights: --overwrite replaces them, --out FOLDER puts the new ones elsewhere" >&2
    exit 2
  fi
  read -r -p "$out holds weights. Replace them? [y/N] " answer
  [ "$answer" = y ] || [ "$answer" = yes ] || exit 1
fi

merged=$(mktemp -d)
trap 'rm -rf "$merged"' EXIT

# merge FOLDER: combines that folder of all sources, keeping the necessary columns, which it finds by name. Refuses a name that two sources have: it
# would be one model on both sides of a split, or two models.
merge() {
  local into=$merged/$1 folder twice
  mkdir -p "$into"
  echo model,batch,measured_mib,censored,reason >"$into/measured_train.csv"
  for folder in "${sources[@]/%//gpumemnet/$1}"; do
    [ -e "$folder/layers.jsonl.gz" ] || continue
    cat "$folder/layers.jsonl.gz" >>"$into/layers.jsonl.gz"
    tr -d '\r' <"$folder/measured_train.csv" | awk -F, -v OFS=, '
      function cell(name) { return name in at ? $at[name] : "" }
      NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
      { print cell("model"), cell("batch"), cell("measured_mib"), cell("censored"), cell("reason") }' >"$into/one.csv"
    cut -d, -f1 "$into/one.csv" | sort -u >>"$into/models"
    cat "$into/one.csv" >>"$into/measured_train.csv"
  done
  [ -e "$into/layers.jsonl.gz" ] || { echo "train.sh: no source has gpumemnet/$1" >&2; exit 2; }
  twice=$(sort "$into/models" | uniq -d | head -3 | tr '\n' ' ')
  [ -z "$twice" ] || { echo "train.sh: two sources have models of one name: $twice" >&2; exit 2; }
}
for folder in mlp cnn encoder; do merge $folder; done

cd "$merged"
# train FOLDER KIND FAMILY FLAG…
train() {
  "$trainer" --kind "$2" --family "$3" --layers "$1/layers.jsonl.gz" --measured "$1/measured_train.csv" \
    "${@:4}" --data "$source" --out "$out"
}
train mlp mlp mlp --folds 4
train cnn mlp cnn --folds 4
train encoder mlp transformer --folds 5
train mlp transformer mlp --folds 2 --members 2 --epochs 25
train cnn transformer cnn --folds 2 --members 2 --epochs 25
train encoder transformer transformer --folds 5 --members 4
