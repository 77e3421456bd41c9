#!/usr/bin/env bash
# Unpacks a tarball, or packs a build and unpacks the result, into a new folder, and runs a daemon and a task of a simulated
# server from there. Only this machine's glibc is accessible. With a second argument, the root folder of another Linux, everything
# runs inside that root (needs root; /dev and /proc, by which the loader finds a program's folder, must be mounted there).
# usage: tarball_test.sh TARBALL|BUILD_DIR [ROOT]
set -euo pipefail
here=$(dirname "$(realpath "$0")")
tarball=$(realpath "${1:?usage: tarball_test.sh TARBALL|BUILD_DIR [ROOT]}")
inside=${2:+$(realpath "$2")}
for path in proc/self dev/null; do
  [ -e "$inside/$path" ] || { echo "tarball_test: no $path in $inside" >&2; exit 2; }
done
mkdir -p "$inside/tmp"
work=$(mktemp -d "$inside/tmp/carma-tarball.XXXXXX")
daemon=
cleanup() {
  [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; }
  rm -rf "$work"
}
trap cleanup EXIT

if [ -d "$tarball" ]; then # packed twice, at different times, it must be the same
  build=$tarball
  export SOURCE_DATE_EPOCH=1000000000 # a commit in between would change the time
  tarball=$("$here/tarball.sh" "$build" "$work/packed")
  again=$("$here/tarball.sh" "$build" "$work/again" 2>/dev/null)
  cmp "$tarball" "$again"
fi
tar -xzf "$tarball" -C "$work"
home=("$work"/carma-*/)
home=("${home[@]%/}")
[ ${#home[@]} -eq 1 ] || { echo "tarball_test: expected one folder in $tarball" >&2; exit 1; }
seen=${home[0]#"$inside"} # the same folder as the programs see it
data=${work#"$inside"}
# The words that enter ROOT. They come after env, because ROOT may contain only glibc.
inside_root=()
[ -z "$inside" ] || inside_root=("$(PATH=$PATH:/usr/sbin type -P chroot)" "$inside")
run=(env -i "PATH=$seen/bin:/usr/bin:/bin" "HOME=$data" ${inside_root[@]+"${inside_root[@]}"})
carma() { "${run[@]}" "$seen/bin/carma" --socket "$data/carmad.sock" "$@"; }

for program in carma carmad carma-reader carma-shim carma-notify carma-simgpu carma-simtask carma-simmps; do
  [ -x "${home[0]}/bin/$program" ] || { echo "tarball_test: no bin/$program" >&2; exit 1; }
done
if [ -z "$inside" ]; then # every library except glibc's comes from the tarball
  foreign=$(for file in "${home[0]}"/bin/* "${home[0]}"/libexec/carma/srun "${home[0]}"/lib/libcarma-simgpu.so; do env -u LD_LIBRARY_PATH ldd "$file"; done |
    awk '/=>/ {print $1, $3}' | grep -vE "$work|^lib(c|m|dl|rt|pthread|resolv)\.so" || true)
  [ -z "$foreign" ] || { echo "tarball_test: from outside: $foreign" >&2; exit 1; }
fi

"${run[@]}" "$seen/bin/carma" --version
"${run[@]}" "$seen/bin/carma-simgpu" create --shape 2xH100-80GB --time-scale 50 --state "$data/gpus" >/dev/null
cat >"$work/carma.toml" <<END
[daemon]
socket = "$data/carmad.sock"
state_dir = "$data/state"
log_level = "warn"
[monitor]
nvml_library = "$seen/lib/libcarma-simgpu.so"
[simulation]
state = "$data/gpus"
END
"${run[@]}" "$seen/bin/carmad" --config "$data/carma.toml" & # env and chroot become carmad, so this is carmad's pid
daemon=$!
carma status --wait >/dev/null
carma submit --wait --gpu-mem 5G --chdir "$data" -- "$seen/bin/carma-simtask" --memory-mib 4000 --solo-s 20 --sm-active 0.5
carma report --name tarball
carma report --html "$data/report.html" >/dev/null
[ -s "$work/report.html" ] || { echo "tarball_test: no report" >&2; exit 1; }
echo "tarball_test: passed${inside:+ inside $inside}"
