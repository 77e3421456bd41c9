#!/usr/bin/env bash
# Packs a build, and installs, upgrades, removes and purges the packages with apt in a minimal Debian of this machine's release.
# In between, a daemon and a task of a simulated server run there. The minimal Debian is made once in BARE_DIR, and only this
# needs the network. Exit status 77, skipped: not root, no debootstrap, or no network for the first run.
# usage: deb_test.sh BUILD_DIR BARE_DIR
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "${1:?usage: deb_test.sh BUILD_DIR BARE_DIR}")
bare=$(realpath -m "${2:?usage: deb_test.sh BUILD_DIR BARE_DIR}")

skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "deb_test: $*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || skip "needs root, to enter a bare Debian"
command -v debootstrap >/dev/null || skip "needs Debian's package debootstrap"
command -v dpkg-shlibdeps >/dev/null || skip "needs Debian's package dpkg-dev"
release=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-}") || skip "needs Debian: the packages are for the release that builds them"
# The test's mounts and processes end with these namespaces.
if [ -z "${CARMA_DEB_TEST_INSIDE:-}" ]; then
  unshare --mount --pid --fork true 2>/dev/null || skip "needs permission to mount"
  CARMA_DEB_TEST_INSIDE=1 exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi

work=$(mktemp -d)
trap 'umount -R "$work"/root/{proc,dev,run} 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
root=$work/root
# enter COMMAND...: runs the command in the minimal Debian. $data is the test's folder there.
data=/srv/deb_test
enter() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    CARMA_SOCKET=/run/carma/carmad.sock "$(type -P chroot)" "$root" "$@"
}
apt() { enter apt-get -qq -o Dpkg::Use-Pty=0 -y --no-install-recommends "$@" >"$work/apt.log" 2>&1 || fail "apt-get $*: $(tail -n 5 "$work/apt.log")"; }

COMPRESSION=gzip SOURCE_DATE_EPOCH=1000000000 "$here/deb.sh" "$build" "$work/debs" >/dev/null

# ---- the minimal Debian ----

needed=$(for package in "$work"/debs/*.deb; do dpkg-deb --field "$package" Depends; done | tr ',' '\n' | sed 's/(.*//; s/ //g' | sort -u | grep -vx carma)
if [ "$(cat "$bare/made" 2>/dev/null)" != "$release" ]; then
  rm -rf "$bare"
  mkdir -p "$bare"
  debootstrap --variant=minbase "$release" "$bare/root" http://deb.debian.org/debian >"$bare/log" 2>&1 ||
    skip "needs a bare Debian, which could not be made: $(tail -n 1 "$bare/log")"
  rm -f "$bare"/root/var/cache/apt/archives/*.deb
  cp /etc/resolv.conf "$bare/root/etc/"
  echo "$release" >"$bare/made"
fi
if [ "$(cat "$bare/needed" 2>/dev/null)" != "$needed" ]; then
  chroot "$bare/root" sh -c "apt-get -qq update && apt-get -qq -y --no-install-recommends --download-only install $(echo $needed)" >>"$bare/log" 2>&1 ||
    skip "needs packages that could not be fetched: $(tail -n 1 "$bare/log")"
  echo "$needed" >"$bare/needed"
fi
cp -a "$bare/root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
# carma-slurm exists if the build found Slurm's headers.
packages="carma carma-doc python3-carma $([ ! -e "$build/bin/spank_carma.so" ] || echo carma-slurm)"
for package in $packages; do cp "$work/debs/${package}"_*.deb "$root/tmp/$package.deb"; done
# A replacement for systemd, which does not run here. It records its arguments.
cat >"$root/usr/bin/systemctl" <<'END'
#!/bin/sh
echo "$*" >>/tmp/systemctl.log
[ "$2" != is-enabled ] || echo enabled
END
chmod +x "$root/usr/bin/systemctl"
mkdir -p "$root/run/systemd/system"
# asked WORD...: checks that systemctl was called with these words for the service since the last check.
asked() {
  local word
  for word in "$@"; do
    grep -qE "(^| )$word carmad.service$" "$root/tmp/systemctl.log" || fail "no systemctl $word: $(cat "$root/tmp/systemctl.log")"
  done
  : >"$root/tmp/systemctl.log"
}
# Lists all files except those that apt, dpkg and Python keep for every installed package.
files() { enter find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /proc -o -path /sys \
  -o -path /tmp -o -path /etc/ld.so.cache -o -path /etc/gshadow- \) -prune -o -print | sort; }
apt install $needed
files >"$work/before"

# ---- installed ----

apt install $(printf '/tmp/%s.deb ' $packages)
asked preset start
for file in usr/bin/carmad usr/libexec/carma/{srun,at-shutdown} usr/lib/systemd/{system,user}/carmad{,-shutdown,-tasks}.service usr/share/man/man1/carma.1.gz \
  usr/share/man/man8/carmad.8.gz usr/share/man/man5/{carma.toml,carma-tasks}.5.gz etc/carma/carma.toml \
  usr/share/bash-completion/completions/carma usr/share/zsh/vendor-completions/_carma usr/share/fish/vendor_completions.d/carma.fish \
  usr/share/doc/carma/docs/server/operations.md usr/share/carma/python/carma_summary.py usr/share/carma/prometheus/carma.rules.yml; do
  enter dpkg -S "/$file" >/dev/null || fail "/$file belongs to no package"
done
case $packages in *carma-slurm*)
  for file in spank_carma.so job_submit.lua prolog epilog; do
    enter dpkg -S "/usr/lib/carma/slurm/$file" | grep -q '^carma-slurm:' || fail "$file is not carma-slurm's"
  done
  ;;
esac
grep -q '^ExecStart=/usr/bin/carmad$' "$root/usr/lib/systemd/system/carmad.service" || fail "the unit starts another carmad"
grep -q '^Wants=carmad-shutdown.service$' "$root/usr/lib/systemd/system/carmad.service" || fail "nothing is wanted for the shutdown"
grep -q '^ExecStop=/usr/libexec/carma/at-shutdown$' "$root/usr/lib/systemd/system/carmad-shutdown.service" || fail "the unit asks nobody to save"
enter getent group carma >/dev/null || fail "no group carma"
[ "$(stat -c %a "$root/var/lib/carma")" = 711 ] || fail "/var/lib/carma has mode $(stat -c %a "$root/var/lib/carma")"
[ -z "$(enter dpkg --verify carma)" ] || fail "$(enter dpkg --verify carma)"
enter carma init --yes --http-port 8099 | grep -q 'http_port = 8099' || fail "carma init changed nothing"
enter carma config check
enter carmad --check-config

enter mkdir "$data"
enter carma-simgpu create --shape 2xH100-80GB --time-scale 50 --state "$data/gpus" >/dev/null
mkdir "$root/etc/carma/carma.d"
cat >"$root/etc/carma/carma.d/simulated.toml" <<END
[monitor]
nvml_library = "/usr/lib/carma/libcarma-simgpu.so"
[simulation]
state = "$data/gpus"
END
sed -i 's/^#keep_finished_days = .*/keep_finished_days = 30/' "$root/etc/carma/carma.toml"
start() { enter carmad --background --log "$data/log" >/dev/null; }
stop() { enter sh -c 'kill "$(pidof carmad)"; while pidof carmad >/dev/null; do sleep 0.05; done' 2>/dev/null; }
start
enter carma status --wait >/dev/null
enter carma submit --wait --gpu-mem 5G --output "$data/%j.out" -- carma-simtask --memory-mib 4000 --solo-s 20 --sm-active 0.5 >/dev/null

enter carma slurm config --node gpu01 | grep -q '^NodeName=gpu01 Name=carma Count=' || fail "carma slurm config counts nothing"
enter carma doctor >"$work/doctor" || fail "carma doctor: $(grep -i bad "$work/doctor" || cat "$work/doctor")"
enter python3 -c 'import carma
task, = carma.wait(carma.submit("echo from $CUDA_VISIBLE_DEVICES", cwd="/srv/deb_test", memory="1G"), timeout=60)
assert task.succeeded and carma.Client().output(task).startswith("from GPU-"), task'

# ---- upgraded, with a running task and a changed configuration ----

enter carma submit --gpu-mem 5G --output "$data/%j.out" -- carma-simtask --memory-mib 4000 --solo-s 100000 --sm-active 0.5 >/dev/null
until [ "$(enter carma list -t running --no-header -o id)" ]; do sleep 0.1; done
apt install --reinstall /tmp/carma.deb
asked restart
grep -q "^keep_finished_days = 30" "$root/etc/carma/carma.toml" || fail "the changed configuration was replaced"
stop
start
enter carma status --wait >/dev/null
enter carma show 3 | grep -q running || fail "the running task did not survive the upgrade"
enter carma cancel 3 >/dev/null
enter carma wait -q 3 || true

# ---- removed ----

stop
apt remove $packages
grep -qE "(^| )stop carmad-shutdown.service$" "$root/tmp/systemctl.log" || fail "the unit of the shutdown stays: $(cat "$root/tmp/systemctl.log")"
asked stop
[ ! -e "$root/usr/bin/carma" ] || fail "/usr/bin/carma stays after the removal"
[ -e "$root/etc/carma/carma.toml" ] || fail "the configuration went with the removal"
[ -e "$root/var/lib/carma/carma.db" ] || fail "the removal deleted the database"
apt purge carma carma-doc python3-carma # nothing is left to purge of carma-slurm
enter rm -rf "$data"
files >"$work/after"
left=$(comm -13 "$work/before" "$work/after")
[ -z "$left" ] || fail "left behind: $left"
echo "deb_test: passed"
