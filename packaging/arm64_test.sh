#!/usr/bin/env bash
# Installs the archive for arm64 in a minimal Debian 11 of that architecture with an emulator, runs a daemon and a task of a
# simulated server there, and removes it again. The emulator is registered with the kernel for this test only, in a user namespace
# (Linux 6.7 or newer). Exit status 77, skipped: not root, no namespaces, no emulator, no minimal Debian, or no build for arm64
# (./dev release --arm64).
# usage: arm64_test.sh BUILD_DIR|ARCHIVE   (a build that is not up to date is packed as it is)
set -euo pipefail
here=$(dirname "$(realpath "$0")")
from=$(realpath -m "${1:?usage: arm64_test.sh BUILD_DIR|ARCHIVE}")
# The beginning of an ELF program for AArch64.
MAGIC='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
MASK='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "arm64_test: $*" >&2
  exit 1
}

if [ "${2:-}" = inside ]; then # in namespaces, in which this process is root
  root=$3 emulator=$4
  mount -t proc proc /proc
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  # F opens the emulator now, so that the root folder needs no copy of it.
  echo ":aarch64:M::$MAGIC:$MASK:$emulator:F" >/proc/sys/fs/binfmt_misc/register
  [ "$(chroot "$root" /bin/uname -m)" = aarch64 ] || fail "the emulator runs no program"
  tar -C "$root/root" -xzf "$from" # unpacked by this machine's tar, because under emulation tar cannot set the modes of folders
  folder=$(basename "$from" .tar.gz)
  chroot "$root" env -i HOME=/root PATH=/usr/bin:/bin LANG=C.UTF-8 sh -ec "
    cd
    $folder/install.sh
    /usr/local/bin/carma version
    /usr/local/share/carma/uninstall.sh
    rm -r $folder
    left=\$(find /usr/local ! -type d)
    [ -z \"\$left\" ] || { echo \"the removal leaves \$left\"; exit 1; }"
  exec "$here/tarball_test.sh" "$from" "$root"
fi

[ "$(id -u)" -eq 0 ] || skip "needs root, to make a bare Debian"
unshare --user --mount --pid --fork true 2>/dev/null || skip "needs permission to create namespaces"
[ "$(printf '%s\n' 6.7 "$(uname -r)" | sort -V | head -n 1)" = 6.7 ] || skip "needs Linux 6.7, in which a namespace may have an emulator of its own"
[ -e "$from" ] || skip "needs a build for arm64 (./dev release --arm64 makes one)"
emulator=$(type -P qemu-aarch64-static || type -P qemu-aarch64 || true)
[ "$emulator" ] || skip "needs the emulator qemu-aarch64-static (./dev release --arm64 installs it)"
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
if [ -d "$from" ]; then from=$("$here/tarball.sh" --portable "$from" "$work"); fi
code=0
"$here/../tools/bare.sh" unpack 11 "$work/root" arm64 >"$work/log" 2>&1 || code=$?
[ $code -ne 77 ] || skip "needs a bare Debian: $(tail -n 1 "$work/log")"
[ $code -eq 0 ] || fail "$(tail -n 5 "$work/log")"
echo root:x:0:0:root:/root:/bin/sh >"$work/root/etc/passwd" # the packages of this root were not configured
echo root:x:0: >"$work/root/etc/group"

# The users of the namespace are those of this machine. The maps are written from outside.
mkfifo "$work/ready"
unshare --user --mount --pid --fork --kill-child sh -c 'read -r _ <"$1"; shift; exec "$@"' sh "$work/ready" \
  "$0" "$from" inside "$work/root" "$emulator" &
child=$!
until [ "$(readlink /proc/$child/ns/user)" != "$(readlink /proc/$$/ns/user)" ]; do sleep 0.1; done
echo "0 0 65536" >/proc/$child/gid_map
echo "0 0 65536" >/proc/$child/uid_map
echo >"$work/ready"
wait $child
echo "arm64_test: passed"
