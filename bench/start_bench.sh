#!/usr/bin/env bash
# Measures how long a daemon with a long history takes to start responding.
# usage: start_bench.sh BIN_DIR WORK_DIR
set -euo pipefail
bin=$(realpath "$1")
work=$(realpath "$2")
. "$(dirname "$0")/servers.sh"

# record_starts KEY: records start times of the daemon whose configuration was written last
record_starts() {
  local mid low high
  read -r mid low high < <("$bin/start_timer" 11 "$socket" "$bin/carmad" --config "$home/carma.toml")
  record "$1" "$mid" ms "$low-$high"
}

echo "start-up (load $(cut -d' ' -f1-3 /proc/loadavg))"
write_config start 8xA100-40GB
record_starts start.new_books.carma
rm -rf "$home/state"
"$bin/make_books" "$home/state" 100000
record_starts start.100000_finished.carma
record start.100000_finished.books "$(du -m "$home/state" | cut -f1)" MiB
rm -rf "$home"
