#!/usr/bin/env bash
# Packs a release build into Debian packages: carma (programs, units, manual, completion), carma-doc, python3-carma, and
# carma-slurm if the plug-in for Slurm was built. The same build gives the same bytes. The maintainer is the person who builds the
# packages, named as for Debian's tools: DEBFULLNAME, DEBEMAIL. With --portable, the programs are those of the target `portable`,
# for Debian 11 and newer and Ubuntu 20.04 and newer.
# usage: [COMPRESSION=xz] deb.sh [--portable] BUILD_DIR OUTPUT_DIR   prints the paths of the packages
set -euo pipefail
umask 022
portable=
if [ "${1:-}" = --portable ]; then portable=yes; shift; fi
build=$(realpath "${1:?usage: deb.sh BUILD_DIR OUTPUT_DIR}")
mkdir -p "${2:?usage: deb.sh BUILD_DIR OUTPUT_DIR}"
output=$(realpath "$2")
source=$(realpath "$(dirname "$0")/..")
. "$source/packaging/licences.sh"
. "$source/packaging/of_build.sh"

if [ "$machine" = x86_64 ]; then architecture=amd64; else architecture=arm64; fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH # dpkg-deb and dpkg-shlibdeps use this time
maintainer="${DEBFULLNAME:-CARMA} <${DEBEMAIL:-root@localhost}>"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

carma=$work/carma doc=$work/carma-doc python=$work/python3-carma
DESTDIR="$carma" cmake --install "$build" --prefix /usr --strip >"$work/install.log" || {
  tail -n 3 "$work/install.log" >&2
  exit 1
}

[ -z "$portable" ] || "$source/packaging/use_portable.sh" "$build" "$carma"

# Programs load this library by its path, so it stays outside the system's library path.
mkdir -p "$carma/usr/lib/carma"
mv "$carma/usr/lib/libcarma-simgpu.so" "$carma/usr/lib/carma/"

# python3-carma: the module in the folder of Debian's Python, and with its helpers in a folder that other Pythons can use.
mkdir -p "$python/usr/share/carma" "$python/usr/lib/python3/dist-packages"
mv "$carma/usr/share/carma/python" "$carma/usr/share/carma/gpu-proof" "$python/usr/share/carma/"
for module in carma carma_task hydra_plugins/hydra_carma_launcher; do
  mkdir -p "$(dirname "$python/usr/lib/python3/dist-packages/$module")"
  mv "$python/usr/share/carma/python/$module" "$python/usr/lib/python3/dist-packages/$module"
  ln -s --relative "$python/usr/lib/python3/dist-packages/$module" "$python/usr/share/carma/python/$module"
done

# carma-slurm, if the plug-in was built.
slurm=$work/carma-slurm
packages=("$carma" "$doc" "$python")
if [ -e "$carma/usr/lib/carma/slurm/spank_carma.so" ]; then
  mkdir -p "$slurm/usr/lib/carma"
  mv "$carma/usr/lib/carma/slurm" "$slurm/usr/lib/carma/"
  packages+=("$slurm")
fi

install -D -m 644 "$source/packaging/carma.toml" "$carma/etc/carma/carma.toml"
find "$carma/usr/share/man" -type f -exec gzip -9n {} +
# The folder in which Debian's zsh looks for completions.
mkdir -p "$carma/usr/share/zsh/vendor-completions"
mv "$carma/usr/share/zsh/site-functions/_carma" "$carma/usr/share/zsh/vendor-completions/"
rmdir "$carma/usr/share/zsh/site-functions"

mkdir -p "$doc/usr/share/doc/carma"
cp "$source/README.md" "$doc/usr/share/doc/carma/"
cp -r "$source/docs" "$doc/usr/share/doc/carma/"
for root in "${packages[@]}"; do
  documents=$root/usr/share/doc/$(basename "$root")
  mkdir -p "$documents"
  install -m 644 "$source/packaging/debian/copyright" "$documents/copyright"
  printf 'carma (%s) unstable; urgency=medium\n\n  * /usr/share/doc/carma/CHANGELOG.md says what is new.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(LC_ALL=C date -u -R --date="@$SOURCE_DATE_EPOCH")" | gzip -9n >"$documents/changelog.gz"
done
install -m 644 "$source/NOTICE" "$source/CHANGELOG.md" "$carma/usr/share/doc/carma/"
mkdir "$carma/usr/share/doc/carma/licences"
for package in "${COMPILED_IN[@]}"; do keep_licence "$carma/usr/share/doc/carma/licences" "$package"; done

# libraries ROOT: prints the packages and versions of the libraries that the programs need.
libraries() {
  # The glibc version of the target `portable`. This Debian's tables only have the versions in which Debian moved functions to
  # other libraries.
  [ -z "$portable" ] || { echo "libc6 (>= 2.28)"; return; }
  mkdir "$work/debian"
  printf 'Source: carma\n\nPackage: carma\nArchitecture: any\n' >"$work/debian/control"
  (cd "$work" && dpkg-shlibdeps -O --ignore-missing-info "$1"/usr/bin/* "$1"/usr/libexec/carma/* "$1"/usr/lib/carma/*.so 2>/dev/null) |
    sed -n 's/^shlibs:Depends=//p'
  rm -r "$work/debian"
}

# pack ROOT ARCHITECTURE: makes a package with the fields on standard input.
pack() {
  local root=$1 package
  package=$(basename "$1")
  mkdir "$root/DEBIAN"
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$package" "$version" "$2" "$maintainer"
    printf 'Installed-Size: %s\nPriority: optional\n' "$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)"
    cat
  } >"$root/DEBIAN/control"
  local script
  for script in "$source/packaging/debian/$package".*; do
    [ -e "$script" ] || continue
    case $script in
      *.conffiles) install -m 644 "$script" "$root/DEBIAN/conffiles" ;;
      *) install -m 755 "$script" "$root/DEBIAN/${script##*.}" ;;
    esac
  done
  (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' md5sum >DEBIAN/md5sums)
  find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" --build "$root" "$output/${package}_${version}_$2.deb" >/dev/null
  echo "$output/${package}_${version}_$2.deb"
}

pack "$carma" "$architecture" <<END
Section: admin
Depends: $(libraries "$carma")
Recommends: python3-carma
Suggests: carma-doc
Description: resource manager of one multi-GPU server
 People submit training tasks; CARMA predicts what each one needs, watches
 what each GPU really has, puts several tasks on one GPU when that pays, and
 brings back a task that ran out of GPU memory.
 .
 This package contains the daemon, the command, and a simulated GPU server.
END
pack "$doc" all <<END
Section: doc
Description: resource manager of one multi-GPU server (documentation)
 Documents of CARMA: describing tasks, policies, configuration, operations,
 security, the API, the simulator.
END
pack "$python" all <<END
Section: python
Depends: python3 (>= 3.9)
Suggests: carma, python3-torch
Description: resource manager of one multi-GPU server (Python)
 The module carma: submit tasks to CARMA, wait for them, and use its GPUs as
 an executor of concurrent.futures. Helpers that describe a PyTorch model for
 its memory estimate, that measure random ones, and that measure CARMA on
 your GPUs.
END
[ -d "$slurm" ] || exit 0
release=$(grep -aoE 'carma for Slurm [0-9.]+' "$slurm/usr/lib/carma/slurm/spank_carma.so" | grep -oE '[0-9.]+$')
pack "$slurm" "$architecture" <<END
Section: admin
Depends: carma (= $version), libc6
Recommends: slurmd
Description: resource manager of one multi-GPU server (plug-in for Slurm)
 Jobs of Slurm share the GPUs of a node as CARMA measures and grants them:
 the plug-in for slurmd, srun, sbatch and salloc, built for Slurm $release, with
 job_submit.lua, prolog and epilog. carma slurm config prints the lines that
 Slurm's configuration needs.
END
