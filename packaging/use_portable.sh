#!/usr/bin/env bash
# Replaces the programs of an installation by those of the target `portable`, which are the same programs linked against an older
# C library.
# usage: use_portable.sh BUILD_DIR INSTALLED_FOLDER
set -euo pipefail
build=${1:?usage: use_portable.sh BUILD_DIR INSTALLED_FOLDER}
root=${2:?usage: use_portable.sh BUILD_DIR INSTALLED_FOLDER}
. "$(dirname "$0")/of_build.sh"
for program in "$build"/portable/*; do
  name=$(basename "$program")
  [ "$name" != carma-simgpu.so ] || name=libcarma-simgpu.so
  place=$(find "$root" \( -path '*/bin/*' -o -path '*/lib/*' -o -path '*/libexec/*' \) -name "$name" -type f)
  [ "$place" ] || { echo "use_portable: $name is not installed" >&2; exit 1; }
  install -m "$(stat -c %a "$place")" "$program" "$place"
  "$strip" "$place"
done
