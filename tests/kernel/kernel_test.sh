#!/usr/bin/env bash
# Boots a separate Linux, as one process, whose cgroup v2 has the controllers that enforce cores and memory, and runs the tests
# there that are skipped on machines without these controllers. Exit status 77, skipped: needs Debian's package user-mode-linux.
# usage: kernel_test.sh BIN_DIR
set -euo pipefail
bin=$(realpath "${1:?usage: kernel_test.sh BIN_DIR}")
command -v linux.uml >/dev/null || { echo "skipped: needs Debian's package user-mode-linux"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The first process of that Linux. It sees this machine's files, but the tests write to a separate /tmp.
cat >"$work/init" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root GTEST_COLOR=no
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs tmpfs /run
cd $bin
# As under a service manager with Delegate=yes: all controllers, and this process in a leaf.
for group in /sys/fs/cgroup /sys/fs/cgroup/carmad.service; do
  mkdir -p \$group
  echo "+cpu +memory +pids" >\$group/cgroup.subtree_control
done
mkdir /sys/fs/cgroup/carmad.service/carmad.daemon
echo \$\$ >/sys/fs/cgroup/carmad.service/carmad.daemon/cgroup.procs
mount -t tmpfs -o mode=1777 tmpfs /tmp
timeout 200 ./system_test --gtest_filter='Host.*'
timeout 60 ./task_test --gtest_filter='Cgroup*:ShimLauncher*:ShimRestart*'
echo "finished"
poweroff -f
END
chmod +x "$work/init"
boot() {
  timeout 140 linux.uml mem=2G rootfstype=hostfs rw init="$work/init" con=null con0=fd:0,fd:1 quiet </dev/null >"$work/log" 2>&1 || true
}
boot
# User-mode Linux 6.12 itself sometimes crashes when a process is killed while it forks, so it boots once more.
grep -q 'Kernel panic - not syncing: Kernel mode fault' "$work/log" && boot

fail() {
  cat "$work/log"
  echo "kernel_test: $*" >&2
  exit 1
}
grep -q '^finished' "$work/log" || fail "the tests did not come to their end"
! grep -q '\[  FAILED  \]' "$work/log" || fail "a test failed"
for test in ATaskThatTakesMoreMemoryThanItsLimitIsKilledForIt TheKernelWeighsAndCapsCores; do
  grep -q "\[       OK \] Host\.$test" "$work/log" || fail "Host.$test was skipped"
done
grep -c '\[       OK \]' "$work/log" | sed 's/$/ tests passed on a kernel with all controllers/'
