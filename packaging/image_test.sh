#!/usr/bin/env bash
# Builds the image of packaging/Containerfile from the archive, based on a minimal Debian of this machine's release, and runs the
# tools in it. Exit status 77, skipped: not root, no podman, no minimal Debian, or a build without the target `portable`
# (packaging/old_libc.sh).
# usage: image_test.sh BUILD_DIR|ARCHIVE
set -euo pipefail
here=$(dirname "$(realpath "$0")")
from=$(realpath "${1:?usage: image_test.sh BUILD_DIR|ARCHIVE}")
skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "image_test: $*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || skip "needs root, to make a bare Debian"
command -v podman >/dev/null || skip "needs Debian's package podman"
work=$(mktemp -d)
# Images are stored in the test's own folder, so that none is left behind.
runtime=$(command -v runc || command -v crun) # crun refuses hybrid cgroups
podman=(podman --runtime "$runtime" --root "$work/images" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs)
trap '"${podman[@]}" rmi --all --force >/dev/null 2>&1 || true; rm -rf --one-file-system "$work"' EXIT

if [ -d "$from" ]; then
  grep -q '^CARMA_OLD_LIBC:PATH=.' "$from/CMakeCache.txt" || skip "needs a build with Debian 11's C library (./dev release makes one)"
  cmake --build "$from" --target portable >"$work/log" 2>&1 || fail "$(tail -n 5 "$work/log")"
  from=$("$here/tarball.sh" --portable "$from" "$work/packed")
fi
mkdir "$work/context"
cp "$from" "$work/context/"
code=0
"$here/../tools/bare.sh" unpack 12 "$work/root" >"$work/log" 2>&1 || code=$?
[ $code -ne 77 ] || skip "needs a bare Debian: $(tail -n 1 "$work/log")"
[ $code -eq 0 ] || fail "$(tail -n 5 "$work/log")"
tar -C "$work/root" --numeric-owner -cf - . | "${podman[@]}" import - localhost/base >"$work/log" 2>&1 || fail "$(tail -n 5 "$work/log")"
rm -rf --one-file-system "$work/root"
isolation=(--isolation chroot --network host) # the build needs no network
"${podman[@]}" build "${isolation[@]}" --build-arg BASE=localhost/base -t carma -f "$here/Containerfile" "$work/context" >"$work/log" 2>&1 ||
  fail "$(tail -n 5 "$work/log")"
# Limits that podman may set even in a namespace.
run=("${podman[@]}" run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 carma)
"${run[@]}" version >"$work/version" 2>"$work/log" || fail "$(tail -n 5 "$work/log")"
grep -q '^carma .*commit' "$work/version" || fail "the image's carma says: $(cat "$work/version")"
"${run[@]}" simulate --runs 2 --json >"$work/simulated" 2>"$work/log" || fail "$(tail -n 5 "$work/log")"
python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))' "$work/simulated"
echo "image_test: passed, $("${podman[@]}" images --format '{{.Size}}' carma)"
