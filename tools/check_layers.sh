#!/usr/bin/env bash
# Fails when a room includes a room that does not stand to its left.
set -euo pipefail
cd "$(dirname "$0")/.."

# room: the rooms it may include
declare -A ALLOWED=(
  [base]=""
  [core]="base"
  [gpu]="base core"
  [task]="base core"
  [store]="base core"
  [trace]="base core"
  [model]="base"
  [estimate]="base core gpu task store trace model"
  [config]="base core gpu task store trace model estimate"
  [api]="base core gpu task store trace model estimate"
  [sim]="base core gpu task store trace model estimate report"
  [report]="base core gpu task store trace model estimate"
  [simgpu]="base core gpu task store trace model estimate config api sim report"
  [daemon]="base core gpu task store trace model estimate config api sim report simgpu"
  [cli]="base core gpu task store trace model estimate config api sim report simgpu"
  [apps]="base core gpu task store trace model estimate config api sim report simgpu daemon cli"
)

bad=0
for folder in src/*/; do
  room=$(basename "$folder")
  if [ -z "${ALLOWED[$room]+known}" ]; then
    echo "src/$room: a room that tools/check_layers.sh does not know"
    bad=1
    continue
  fi
  while IFS=: read -r file line text; do
    other=${text#*\"}
    other=${other%%/*}
    [ "$other" = "$room" ] && continue
    case " ${ALLOWED[$room]} " in
      *" $other "*) ;;
      *)
        echo "$file:$line: room '$room' must not include from '$other'"
        bad=1
        ;;
    esac
  done < <(grep -rnE '^#include "[a-z]+/' "$folder" || true)
done
# The core is told the time and does no input or output.
if grep -nE '#include <(chrono|thread|mutex|fstream|iostream|unistd\.h|sys/|random|filesystem)' src/core/*.cc src/core/*.h | grep -v _test.cc; then
  echo "src/core: clocks, threads, files and sockets stay outside"
  bad=1
fi
exit $bad
