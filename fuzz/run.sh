#!/usr/bin/env bash
# Runs every fuzz target on its corpus for SECONDS (default: 60). New inputs go to out/fuzz; the run stops at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:?usage: fuzz/run.sh BIN_DIR [SECONDS]}
seconds=${2:-60}
for target in "$bin"/fuzz_*; do
  [ "$(basename "$target")" = fuzz_replay_test ] && continue
  name=$(basename "$target")
  name=${name#fuzz_}
  mkdir -p "out/fuzz/$name"
  echo "== $name, $seconds s"
  "$target" "out/fuzz/$name" "fuzz/corpus/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 \
    -print_final_stats=1 -artifact_prefix="out/fuzz/$name-" 2>&1 | grep -E 'ERROR|SUMMARY|stat::number_of_executed|Test unit' || true
  if compgen -G "out/fuzz/$name-*" >/dev/null; then
    echo "findings: out/fuzz/$name-*" >&2
    exit 1
  fi
done
