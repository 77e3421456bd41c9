#!/usr/bin/env bash
# Types the README's commands for new users in minimal Debian 11, 12 and 13, from the archive to a first task, which must take at
# most five commands and 60 s. Then runs the demo, kills the daemon under a running task, and removes CARMA, which must leave
# nothing behind. Exit status 77, skipped: not root, no namespaces, no minimal Debian, or a build without the target `portable`
# (packaging/old_libc.sh).
# usage: portable_test.sh BUILD_DIR|ARCHIVE [RELEASE…]   (default: 11 12 13)
set -euo pipefail
here=$(dirname "$(realpath "$0")")
from=$(realpath "${1:?usage: portable_test.sh BUILD_DIR|ARCHIVE [RELEASE…]}")
shift
releases=("$@")
[ ${#releases[@]} -gt 0 ] || releases=(11 12 13)
LONGEST_S=60 # for the first five commands
LARGEST=30000000 # bytes of the server, without the laboratory

skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "portable_test: $*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || skip "needs root, to enter a bare Debian"
if [ -z "${CARMA_PORTABLE_INSIDE:-}" ]; then
  unshare --mount --pid --fork true 2>/dev/null || skip "needs permission to mount"
  CARMA_PORTABLE_INSIDE=1 exec unshare --mount --pid --fork --kill-child "$0" "$from" "${releases[@]}"
fi
mount --make-rprivate /
work=$(mktemp -d)
trap 'umount -R "$work"/*/proc "$work"/*/dev 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT

archive=$from
if [ -d "$from" ]; then
  grep -q '^CARMA_OLD_LIBC:PATH=.' "$from/CMakeCache.txt" || skip "needs a build with Debian 11's C library (./dev release makes one)"
  cmake --build "$from" --target portable >"$work/log" 2>&1 || fail "$(tail -n 5 "$work/log")"
  archive=$("$here/tarball.sh" --portable "$from" "$work/packed")
fi
folder=$(tar -tzf "$archive" | head -n 1 || true)
folder=${folder%%/*}

for release in "${releases[@]}"; do
  root=$work/$release
  code=0
  "$here/../tools/bare.sh" unpack "$release" "$root" >"$work/log" 2>&1 || code=$?
  [ $code -ne 77 ] || skip "needs a bare Debian: $(tail -n 1 "$work/log")"
  [ $code -eq 0 ] || fail "$(tail -n 5 "$work/log")"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  chroot "$root" useradd --create-home --shell /bin/bash ann
  cp "$archive" "$root/home/ann/"
  (cd "$root" && find home/ann | sort) >"$work/before"
  cat >"$root/tmp/type" <<END
set -e
cd
typed=0
newcomer() { typed=\$((typed + 1)); echo "\$ \$*"; eval "\$*"; }
began=\$(date +%s)
newcomer tar xzf $(basename "$archive")
newcomer $folder/install.sh
newcomer 'export PATH=~/.local/bin:\$PATH'
newcomer carmad --background --simulate 4xA100-40GB
newcomer carma submit --wait --gpu-mem 12G -- carma-simtask --memory-mib 11000 --solo-s 10 --sm-active 0.4
took=\$((\$(date +%s) - began))
echo "a first task after \$typed commands and \$took s"
[ \$typed -le 5 ] && [ \$took -le $LONGEST_S ]

size=\$(du -sb ~/.local --exclude=state | cut -f1)
server=\$(du -cb ~/.local/bin/{carma,carmad,carma-shim,carma-reader,carma-notify} ~/.local/libexec | tail -n 1 | cut -f1)
echo "installed: \$size bytes, of which the server \$server"
[ \$server -le $LARGEST ]

# CARMA is installed again while the daemon runs. The daemon continues, and the user is told how to restart it. A damaged archive
# is refused.
$folder/install.sh >said
carma status >status
grep -q "kill \$(carma status --json | grep -oE '"pid": ?[0-9]+' | grep -oE '[0-9]+\$'); sleep 2; carmad --background" said || { cat said; exit 1; }
grep -q 'its program was replaced' status || { cat status; exit 1; }
rm status
cp -r $folder damaged
echo x >>damaged/share/carma/carma.toml
! damaged/install.sh >/dev/null 2>said || { echo "a damaged archive was installed"; exit 1; }
grep -q 'damaged: share/carma/carma.toml' said || { cat said; exit 1; }
rm -r damaged said

# When the daemon is killed, the task continues and its exit code is kept.
carma submit -G 0 --no-check -- sh -c 'sleep 3; exit 7'
until [ "\$(carma list -t running --no-header -o id)" ]; do sleep 0.1; done
kill -KILL "\$(carma status --json | grep -oE '"pid": ?[0-9]+' | grep -oE '[0-9]+\$')"
sleep 4
carmad --background --simulate 4xA100-40GB
code=0; carma wait -q @ || code=\$?
[ \$code -eq 7 ] || { echo "the task's exit code is \$code after the kill, expected 7"; exit 1; }
kill "\$(carma status --json | grep -oE '"pid": ?[0-9]+' | grep -oE '[0-9]+\$')"

carma demo --speed 3000
for each in /tmp/carma-demo.*; do [ ! -e "\$each" ] || { echo "the demo left \$each"; exit 1; }; done
carma version
~/.local/share/carma/uninstall.sh
END
  chroot "$root" env -i HOME=/home/ann USER=ann PATH=/usr/bin:/bin LANG=C.UTF-8 setpriv --reuid=ann --regid=ann --init-groups \
    bash /tmp/type >"$work/said" 2>&1 </dev/null || { cat "$work/said" >&2; fail "Debian $release"; }
  sed -n 's/^\(a first task\|installed:\|carma [0-9]\)/Debian '"$release"': &/p' "$work/said"
  (cd "$root" && find home/ann \( -path "home/ann/$folder" -o -path home/ann/.local/state -o -path home/ann/.cache \) -prune -o -print | sort) |
    grep -v '^home/ann/carma-[0-9][-0-9a-z]*\.out$' >"$work/after"
  left=$(comm -13 "$work/before" "$work/after" | grep -vE '^home/ann/\.local$' || true)
  [ -z "$left" ] || fail "Debian $release: the removal leaves: $left"
done
echo "portable_test: passed"
