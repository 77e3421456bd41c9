#!/usr/bin/env bash
# Installs a build, starts a separate systemd with little more than the installed units, reboots it while tasks run, and checks
# them after the boot. Exit status 77, skipped: not root, no systemd, or no separate namespaces or cgroup v2.
# usage: shutdown_test.sh BUILD_DIR
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "${1:?usage: shutdown_test.sh BUILD_DIR}")
systemd=/lib/systemd/systemd

skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "shutdown_test: $*" >&2
  [ ! -r "$work/log" ] || tail -n 40 "$work/log" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || skip "needs root, to start a systemd"
[ -x $systemd ] || skip "needs Debian's package systemd"
groups=$(findmnt -t cgroup2 -n -o TARGET | head -n 1)
[ "$groups" ] || skip "needs cgroup v2"
group=$groups/carma-shutdown-test-$$
mkdir "$group" 2>/dev/null || skip "needs the right to make a cgroup"

work=$(mktemp -d)
manager=
cleanup() {
  # When the first process ends, all others end, and only then does unshare.
  [ -z "$manager" ] || kill -KILL $(cat "/proc/$manager/task/$manager/children") 2>/dev/null || true
  [ -z "$manager" ] || wait "$manager" 2>/dev/null || true
  find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
unshare --mount --pid --cgroup --fork true 2>/dev/null || skip "needs permission to create namespaces"

# ---- the machine ----

"$here/install.sh" "$build" "$work/opt" >/dev/null
carma=$work/opt/bin/carma
units=$work/units
mkdir -p "$units" "$work/var" "$work/home"
for unit in basic sysinit local-fs remote-fs network shutdown umount final reboot swap sockets timers paths slices; do
  cp "/lib/systemd/system/$unit.target" "$units/"
done
cp /lib/systemd/system/systemd-reboot.service "$work"/opt/lib/systemd/system/carmad*.service "$units/"
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=carmad.service hangs.service\n' >"$units/machine.target"
# A unit that never finishes starting, as on a machine that is rebooted for this reason. systemd stays in the state "starting"
# until the end.
printf '[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\nTimeoutStartSec=infinity\n' >"$units/hangs.service"
"$work/opt/bin/carma-simgpu" create --shape 2xA100-40GB --time-scale 1 --state "$work/gpus" >/dev/null
cat >"$work/carma.toml" <<END
[daemon]
socket = "$work/carmad.sock"
state_dir = "$work/state"
[monitor]
nvml_library = "$(find "$work/opt" -name libcarma-simgpu.so)"
[simulation]
state = "$work/gpus"
[collocation]
method = "streams"
[slots]
shutdown_notice = "20s"
[task]
kill_grace = "1s"
END
for name in carmad carmad-shutdown; do
  mkdir "$units/$name.service.d"
  printf '[Service]\nEnvironment=CARMA_SOCKET=%s/carmad.sock HOME=%s/home\nStandardOutput=append:%s/log\nStandardError=append:%s/log\n' \
    "$work" "$work" "$work" "$work" >"$units/$name.service.d/test.conf"
done
printf 'ExecStart=\nExecStart=%s/opt/bin/carmad --config %s/carma.toml\n' "$work" "$work" >>"$units/carmad.service.d/test.conf"

cat >"$work/init" <<END
#!/bin/bash
set -e
mount --make-rprivate /
mount -t proc proc /proc
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mount --bind $work/var /var/lib
mkdir /run/systemd
# This systemd must not be able to bring down the real machine.
exec setpriv --bounding-set=-sys_boot --inh-caps=-sys_boot env -i container=test SYSTEMD_UNIT_PATH=$units \\
  PATH=/usr/sbin:/usr/bin:/sbin:/bin $systemd --system --log-target=null --unit=machine.target
END
chmod +x "$work/init"

export CARMA_SOCKET=$work/carmad.sock
boot() {
  (
    echo $BASHPID >"$group/cgroup.procs"
    exec unshare --mount --pid --cgroup --fork --kill-child "$work/init"
  ) >>"$work/log" 2>&1 &
  manager=$!
  "$carma" status --wait --timeout 60 >/dev/null || fail "carmad does not come up"
}
inside() { nsenter --target "$(pgrep -P "$manager")" --all "$@"; }
until_down() {
  wait "$manager" || true
  manager=
}

# ---- tasks ----

# saver NAME OPTIONS...: submits a task that counts its steps, and saves the count when it is asked to checkpoint.
cat >"$work/saver" <<'END'
import os, signal, sys, time
path, told = os.environ["CARMA_CHECKPOINT_DIR"] + "/step", sys.argv[1]
done = int(open(path).read()) if os.path.exists(path) else 0
wanted = False
def ask(*_):
    global wanted
    wanted = True
signal.signal(signal.SIGUSR1, ask)
while not os.path.exists(told + ".enough"):
    time.sleep(0.05)  # the work of one step
    done += 1
    with open(told, "a") as file:
        file.write("%d\n" % done)
    if wanted:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(str(done))
            os.fsync(file.fileno())
        sys.exit(85)
END
submit() { (cd "$work" && "$carma" submit --json "$@") | grep -oE '"first": ?[0-9]+' | grep -oE '[0-9]+$'; }
state() { "$carma" show "$1" --json | grep -oE '"state": ?"[a-z]+"' | head -n 1 | grep -oE '[a-z]+"$' | tr -d '"'; }
# eventually COMMAND...: repeats the command until it succeeds, for at most a minute.
eventually() {
  local end=$((SECONDS + 60))
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "not within a minute: $*"
    sleep 0.1
  done
}
steps() { [ -e "$work/$1" ] && [ "$(wc -l <"$work/$1")" -ge "$2" ]; }
is() { [ "$(state "$1")" = "$2" ]; }
asked() { grep -c 'event=asked_to_save' "$work/log" || true; }

boot
gpu=$(submit --gpu-mem 1G --no-slots -- python3 "$work/saver" "$work/gpu")
cpu=$(submit -G 0 -- python3 "$work/saver" "$work/cpu")
deaf=$(submit --gpu-mem 1G -- sh -c "trap '' USR1; sleep 100000")
eventually steps gpu 3
eventually steps cpu 3
eventually is "$deaf" running

# ---- stops that are not a shutdown ----

inside systemctl restart carmad
"$carma" status --wait >/dev/null
inside systemctl stop carmad-shutdown
inside systemctl start carmad-shutdown
[ "$(asked)" -eq 0 ] || fail "a restart or the unit's stop asked tasks to save"
is "$gpu" running || fail "the task did not survive the restart"

# ---- a reboot ----

[ "$(inside systemctl is-system-running || true)" = starting ] || fail "something hangs, and systemd is not starting"
began=$SECONDS
inside systemctl reboot 2>>"$work/log" # there is no logind that could be asked
until_down
took=$((SECONDS - began))
[ $took -ge 15 ] && [ $took -le 50 ] || fail "the machine went down within $took s, where one task takes its 20 s"
[ "$(asked)" -eq 3 ] || fail "$(asked) tasks were asked to checkpoint, expected 3"
grep -q 'No more tasks are running' "$work/log" || fail "the unit did not wait"

boot
"$carma" status | grep -q 'until the machine reboots' && fail "the server is closed after the boot"
for task in gpu cpu; do
  before=$(wc -l <"$work/$task")
  eventually steps $task $((before + 3))
  touch "$work/$task.enough"
done
"$carma" wait -q "$gpu" "$cpu" || fail "the tasks did not end well"
for task in gpu cpu; do
  seq "$(wc -l <"$work/$task")" | cmp -s - "$work/$task" || fail "$task counted a step twice, or left one out"
done
[ "$("$carma" show "$gpu" --json | grep -oE '"attempt": ?[0-9]+' | grep -oE '[0-9]+$')" -eq 2 ] || fail "not its second attempt"
eventually is "$deaf" running

# ---- without tasks, the shutdown does not wait ----

"$carma" cancel "$deaf" >/dev/null
"$carma" wait -q "$deaf" || true
began=$SECONDS
inside systemctl reboot 2>>"$work/log" # there is no logind that could be asked
until_down
[ $((SECONDS - began)) -le 10 ] || fail "an empty server went down within $((SECONDS - began)) s"
echo "shutdown_test: passed; with a task that does not save the machine went down within $took s"
