#!/usr/bin/env bash
# Makes all files of a release from builds that have the target `portable`: archive, Debian packages, RPM and wheel for the
# machine of each build, Containerfile, release notes, and SHA256SUMS over all files. The same commit and compiler give the same
# sums.
# usage: release.sh OUTPUT_DIR BUILD_DIR…   OUTPUT_DIR is replaced; the programs of the first build run here
set -euo pipefail
umask 022
here=$(dirname "$(realpath "$0")")
output=$(realpath -m "${1:?usage: release.sh OUTPUT_DIR BUILD_DIR…}")
own=$(realpath "${2:?usage: release.sh OUTPUT_DIR BUILD_DIR…}")
shift
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)}

rm -rf "$output"
mkdir -p "$output"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for build in "$@"; do
  . "$here/of_build.sh"
  "$here/tarball.sh" --portable "$build" "$output"
  "$here/deb.sh" --portable "$build" "$output"
  "$here/rpm.sh" "$build" "$output"
  "$strip" -o "$work/carma" "$build/portable/carma"
  "$here/wheel.py" "$work/carma" "$version" "$output"
done
install -m 644 "$here/Containerfile" "$output/"
# The newest section of CHANGELOG.md.
awk '/^## / { if (found++) exit } found' "$here/../CHANGELOG.md" >"$output/RELEASE_NOTES.md"
{
  "$own/bin/carma" version
  echo "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH"
  echo "Built on $(. /etc/os-release && echo "$PRETTY_NAME") with:"
  dpkg-query -W -f='${Package} ${Version}\n' 'g++*' mold cmake libboost1.*-dev libcli11-dev libeigen3-dev libfmt-dev libncurses-dev libspdlog-dev \
    libsqlite3-dev libsqlitecpp-dev libtomlplusplus-dev nlohmann-json3-dev zlib1g-dev 2>/dev/null | sort -u | awk 'NF == 2'
} >"$output/MANIFEST"
(cd "$output" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
cat "$output/SHA256SUMS"
