#!/bin/bash
# The steps that systemd_test.sh runs in the system that it boots. Each step waits for its result.
# usage: systemd_steps.sh FOLDER   FOLDER: its bin/ has CARMA's programs
export PATH=$1/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TERM=dumb
fail() {
  trap - ERR
  exec >/dev/console
  echo "FAILED: $*"
  tail -n 30 /run/log
  systemctl status --no-pager carmad carmad-tasks
  systemctl poweroff --force --force
}
set -E
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR
systemctl --version | head -n 1

submit() { carma submit --json --output "/run/out.%j" -G 0 "$@" | grep -oE '"first": ?[0-9]+' | grep -oE '[0-9]+$'; }
state() { carma show "$1" --json | grep -oE '"state": ?"[a-z_]+"' | head -n 1 | grep -oE '[a-z_]+"$' | tr -d '"'; }
is() { [ "$(state "$1")" = "$2" ]; }
# eventually COMMAND...: repeats the command until it succeeds, for at most a minute.
eventually() {
  local end=$((SECONDS + 60))
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "not within a minute: $*"
    sleep 0.1
  done
}
group() { echo "/sys/fs/cgroup$(sed 's/^0:://' "/proc/$(cat "/run/pid.$1")/cgroup")"; }
# limited NAME MIB: succeeds if the kernel limits that task to this memory.
limited() {
  local group
  group=$(group "$1")
  [ "$(cat "$group/memory.max")" = $(($2 << 20)) ] || fail "$1 may use $(cat "$group/memory.max") bytes, expected $2 MiB"
  [ "$(cat "$group/cpu.weight")" = 200 ] || fail "the cores of $1 weigh $(cat "$group/cpu.weight"), expected 200"
  [ "$(cat "$group/pids.max")" = 32768 ] || fail "$1 may have $(cat "$group/pids.max") processes, expected 32768"
}
# Allocates the first number of MiB, waits for its signal, and allocates the second number.
cat >/run/take <<'EOTASK'
my ($name, $first, $second) = @ARGV;
my $held = "x" x ($first << 20);
open(my $pid, ">", "/run/pid.$name.new");
print $pid $$;
close($pid);
rename("/run/pid.$name.new", "/run/pid.$name");
select(undef, undef, undef, 0.1) until -e "/run/go.$name";
my $more = "y" x ($second << 20);
exit(length($held) + length($more) == ($first + $second) << 20 ? 0 : 1);
EOTASK
# start NAME LIMIT FIRST SECOND (MiB): submits a task and prints its id.
start() {
  submit --cpus 2 --mem "$2M" -- perl /run/take "$1" "$3" "$4"
}
main() { systemctl show --property=MainPID --value carmad | tr -cd 0-9; }

systemctl start carmad
carma status --wait >/dev/null
grows=$(start grows 150 80 120)
stays=$(start stays 150 20 20)
eventually test -e /run/pid.grows
eventually test -e /run/pid.stays
limited grows 150
limited stays 150
place=$(group stays)

# again COMMAND...: runs the command, which replaces carmad, and checks that the tasks continue with their limits.
again() {
  local old
  old=$(main)
  another() { [ "$(main)" != "$old" ] && [ "$(main)" != 0 ]; }
  "$@"
  eventually another
  carma status --wait >/dev/null
  limited grows 150
  limited stays 150
  [ "$(group stays)" = "$place" ] || fail "$*: the task is in $(group stays), was in $place"
  is "$stays" running || fail "$*: the task is $(state "$stays")"
  echo "held over: $*"
}
again kill -KILL "$(main)"
again systemctl restart carmad
again kill -ABRT "$(main)"
systemctl daemon-reload
again systemctl restart carmad
stop_and_start() {
  systemctl stop carmad
  limited stays 150
  systemctl start carmad
}
again stop_and_start
systemctl reload carmad

# Memory that a task allocated before the restarts counts.
touch /run/go.grows
! carma wait -q "$grows" || fail "80 MiB before the restarts and 120 after them were not more than 150"
carma show "$grows" | grep -i 'memory' || fail "$(carma show "$grows")"
touch /run/go.stays
carma wait -q "$stays" || fail "the task that stayed below its limit is $(state "$stays")"
later=$(start later 60 10 90)
eventually test -e /run/pid.later
touch /run/go.later
! carma wait -q "$later" || fail "a task that began after the restarts has no limit"

# No task runs, but the group still exists for the next task.
again() { "$@"; carma status --wait >/dev/null; }
again systemctl restart carmad
last=$(submit --cpus 2 --mem 60M -- perl /run/take last 10 10)
eventually test -e /run/pid.last
carma status --json | grep -q 'cores (by weight)' || fail "$(carma status --json)"
carma doctor >/run/doctor || true
! grep -q 'not enforced.*its cores' /run/doctor || fail "$(cat /run/doctor)"
grep -q "one cgroup per task below ${place%/*}" /run/doctor || fail "$(cat /run/doctor)"
touch /run/go.last
carma wait -q "$last" || fail "the last task is $(state "$last")"
echo "groups of tasks are below ${place%/*}"
echo finished
systemctl poweroff --force --force
