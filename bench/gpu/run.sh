#!/usr/bin/env bash
# The proof on real hardware: trains a dozen or more small tasks exclusively, then collocated by CARMA, with streams and
# under MPS, and writes a report (docs/server/gpu-proof.md). Needs an NVIDIA GPU and a python3 with PyTorch;
# --dry needs neither: simulated GPUs, simulated training.
# usage: run.sh [--tarball FILE | --bin DIR] [options of gpu_proof.py…]
# CARMA is taken from the given place, else from the tarball that this script is part of, else it is built (Debian 12).
set -euo pipefail
here=$(dirname "$(realpath "$0")")
bin=
unpacked=
cleanup() { [ -z "$unpacked" ] || rm -rf "$unpacked"; }
trap cleanup EXIT

case "${1:-}" in
  --tarball)
    unpacked=$(mktemp -d /tmp/carma-proof.XXXXXX)
    tar -xzf "${2:?run.sh: --tarball wants a file}" -C "$unpacked"
    bin=$(echo "$unpacked"/carma-*/bin)
    shift 2
    ;;
  --bin)
    bin=$(realpath "${2:?run.sh: --bin wants a folder}")
    shift 2
    ;;
esac
if [ -z "$bin" ] && [ -x "$here/../../../bin/carmad" ]; then
  bin=$(realpath "$here/../../../bin")
elif [ -z "$bin" ]; then
  "$here/../../dev" build
  bin=$(realpath "$here/../../build/release/bin")
fi
[ -x "$bin/carmad" ] || { echo "run.sh: no carmad in $bin" >&2; exit 2; }

# The interpreter that has PyTorch. For a dry run, any interpreter will do.
python=${CARMA_PROOF_PYTHON:-}
for candidate in python3 /usr/bin/python3 python; do
  [ -z "$python" ] || break
  if "$candidate" -c 'import torch' 2>/dev/null; then python=$candidate; fi
done
proof=("${python:-python3}" "$here/gpu_proof.py" --bin "$bin" "$@")
[ -n "$unpacked" ] || exec "${proof[@]}" # exec, so that signals reach the program
"${proof[@]}"
