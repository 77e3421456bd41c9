#!/usr/bin/env bash
# Boots a separate Linux, as one process, with a systemd that runs the packaged units, and checks that cores and memory of tasks
# stay limited while carmad is killed, restarted, stopped and started.
# Exit status 77, skipped: needs Debian's packages user-mode-linux and systemd.
# usage: systemd_test.sh BIN_DIR [ROOT]   ROOT: the root folder of another system, whose systemd runs (default: this one's)
set -euo pipefail
here=$(dirname "$(realpath "$0")")
bin=$(realpath "${1:?usage: systemd_test.sh BIN_DIR [ROOT]}")
root=${2:-}
command -v linux.uml >/dev/null || { echo "skipped: needs Debian's package user-mode-linux"; exit 77; }
[ -x "$root/lib/systemd/systemd" ] || { echo "skipped: needs Debian's package systemd"; exit 77; }

work=$(mktemp -d)
inside=$work # where that system sees it
[ -z "$root" ] || inside=/carma-systemd-test
trap 'rm -rf "$work"; [ -z "$root" ] || rm -rf "$root$inside"' EXIT
mkdir "$work/units" "$work/bin"
cp "$bin"/{carmad,carma,carma-shim,carma-notify,carma-reader,carma-simgpu} "$bin/libcarma-simgpu.so" "$work/bin/"
for unit in basic sysinit local-fs remote-fs network shutdown umount final sockets timers paths slices; do
  cp "$root/lib/systemd/system/$unit.target" "$work/units/"
done
for unit in carmad carmad-tasks; do
  sed "s|/usr/local/bin/|$inside/bin/|; /^Wants=carmad-shutdown/d" "$here/../../packaging/$unit.service" >"$work/units/$unit.service"
done
sed -i "s|^\(ExecStart=.*\)|\1 --config $inside/carma.toml --simulate 1xA100-40GB|" "$work/units/carmad.service"
printf '[Service]\nEnvironment=HOME=/run\nStandardOutput=append:/run/log\nStandardError=append:/run/log\n' >>"$work/units/carmad.service"
printf '[host]\ncpus = 8\n[task]\nkill_grace = "1s"\n[collocation]\nmethod = "streams"\n' >"$work/carma.toml"
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=steps.service\n' >"$work/units/machine.target"
printf '[Service]\nExecStart=/bin/bash %s/steps %s\nStandardOutput=tty\nStandardError=inherit\nTTYPath=/dev/console\n' "$inside" "$inside" >"$work/units/steps.service"

cat >"$work/init" <<END
#!/bin/bash
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir -p /run/systemd
exec env -i container=test SYSTEMD_UNIT_PATH=$inside/units PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \\
  --log-target=null --unit=machine.target
END
chmod +x "$work/init"
cp "$here/systemd_steps.sh" "$work/steps"
if [ "$root" ]; then cp -a "$work" "$root$inside"; fi
timeout 480 linux.uml mem=1G rootfstype=hostfs rootflags="${root:-/}" rw init="$inside/init" con=null con0=fd:0,fd:1 quiet \
  </dev/null >"$work/log" 2>&1 || true
grep -aq '^finished' "$work/log" || { cat "$work/log"; echo "systemd_test: failed" >&2; exit 1; }
grep -aE '^(systemd [0-9]|held over|groups of tasks)' "$work/log"
