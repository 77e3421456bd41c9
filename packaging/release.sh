#!/usr/bin/env bash
# Makes everything of a release from a build that has the target `portable`: archive, Debian packages, RPM, wheel, Containerfile, release notes, and
# SHA256SUMS over all of them. The same commit and compiler give the same sums.
# usage: release.sh BUILD_DIR OUTPUT_DIR   OUTPUT_DIR is made anew
set -euo pipefail
umask 022
here=$(dirname "$(realpath "$0")")
build=$(realpath "${1:?usage: release.sh BUILD_DIR OUTPUT_DIR}")
output=$(realpath -m "${2:?usage: release.sh BUILD_DIR OUTPUT_DIR}")
version=$("$build/bin/carma" version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)}

rm -rf "$output"
mkdir -p "$output"
"$here/tarball.sh" --portable "$build" "$output"
"$here/deb.sh" --portable "$build" "$output"
"$here/rpm.sh" "$build" "$output"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strip -o "$work/carma" "$build/portable/carma"
install -m 644 "$here/Containerfile" "$output/"
"$here/wheel.py" "$work/carma" "$version" "$output"
# The newest section of the changes.
awk '/^## / { if (found++) exit } found' "$here/../CHANGELOG.md" >"$output/RELEASE_NOTES.md"
{
  "$build/bin/carma" version
  echo "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH"
  echo "Built on $(. /etc/os-release && echo "$PRETTY_NAME") with:"
  dpkg-query -W -f='${Package} ${Version}\n' g++ mold cmake libboost1.*-dev libcli11-dev libeigen3-dev libfmt-dev libncurses-dev libspdlog-dev \
    libsqlite3-dev libsqlitecpp-dev libtomlplusplus-dev nlohmann-json3-dev zlib1g-dev 2>/dev/null | sort -u | awk 'NF == 2'
} >"$output/MANIFEST"
(cd "$output" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
cat "$output/SHA256SUMS"
