#!/usr/bin/env bash
# Packs a release build into carma-VERSION-linux-MACHINE.tar.gz. Unpacked anywhere, it runs on every Linux whose glibc is at least
# GLIBC_LIMIT, because every other library is linked in. With --portable, its programs are those of the target `portable`. The
# same build gives the same bytes: names are sorted, owners and times are fixed.
# usage: tarball.sh [--portable] BUILD_DIR OUTPUT_DIR   prints the path of the tarball
set -euo pipefail
umask 022
portable=
if [ "${1:-}" = --portable ]; then portable=yes; shift; fi
build=$(realpath "${1:?usage: tarball.sh BUILD_DIR OUTPUT_DIR}")
mkdir -p "${2:?usage: tarball.sh BUILD_DIR OUTPUT_DIR}"
output=$(realpath "$2")
source=$(realpath "$(dirname "$0")/..")

GLIBC_LIMIT=2.28 # for a portable build: RHEL 8
# All parts of glibc come from the target machine, because they must be of one version.
GLIBC_FILES='^(lib(c|m|dl|rt|pthread|resolv|util|anl)\.so\.[0-9]+|ld-linux-(x86-64|aarch64)\.so\.[12])$'
. "$source/packaging/licences.sh"
. "$source/packaging/of_build.sh"

fail() {
  echo "tarball: $*" >&2
  exit 1
}
needed() { "$objdump" -p "$1" 2>/dev/null | awk '$1 == "NEEDED" {print $2}'; }

name=carma-$version-linux-$machine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/$name
# Installed below the prefix that the units name, so that they contain no path of this machine.
DESTDIR="$work/staged" cmake --install "$build" --prefix /usr/local --strip >"$work/install.log" ||
  fail "$(tail -n 3 "$work/install.log")"
mv "$work/staged/usr/local" "$root"
[ -z "$portable" ] || "$source/packaging/use_portable.sh" "$build" "$root"

documents=$root/share/doc/carma
licences=$documents/licences
mkdir -p "$licences"
cp "$source"/{README.md,CHANGELOG.md,LICENSE,NOTICE} "$documents"
cp -r "$source/docs" "$documents"
for file in "$root"/bin/* "$root"/libexec/carma/* "$root"/lib/*.so; do
  [[ $file != */at-shutdown ]] || continue # a script
  for library in $(needed "$file"); do
    [[ $library =~ $GLIBC_FILES ]] || fail "${file#"$root"/} needs $library, which other machines need not have"
  done
done
for package in "${COMPILED_IN[@]}"; do keep_licence "$licences" "$package"; done

highest=$(find "$root"/{bin,lib,libexec} -type f ! -name '*.service' ! -name '*.conf' ! -name at-shutdown -exec "$objdump" -T {} \; 2>/dev/null |
  grep -oE 'GLIBC_[0-9]+(\.[0-9]+)+' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
[ "$highest" ] || fail "$objdump finds no symbols of glibc"
[ -z "$portable" ] || [ "$(printf '%s\n' "$highest" "$GLIBC_LIMIT" | sort -V | tail -n 1)" = "$GLIBC_LIMIT" ] ||
  fail "needs glibc $highest, newer than $GLIBC_LIMIT"
echo "Linux on $machine with glibc $highest" >"$root/share/carma/needs"
install -m 755 "$source/packaging/archive/install.sh" "$root/install.sh"
install -m 755 "$source/packaging/uninstall.sh" "$root/share/carma/uninstall.sh"
(cd "$root" && find . ! -type d ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)

time=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2>/dev/null || echo 0)}
tar -C "$work" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw \
  --mtime="@$time" -cf - "$name" | gzip -9n >"$work/$name.tar.gz"
mv "$work/$name.tar.gz" "$output/"
echo "tarball: needs glibc $highest" >&2
echo "$output/$name.tar.gz"
