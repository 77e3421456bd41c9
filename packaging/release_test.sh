#!/usr/bin/env bash
# Makes all files of a release twice. The sums are equal, the files are complete, and the wheel's module and command work. Exit
# status 77, skipped: no rpm, or a build without the target `portable` (packaging/old_libc.sh).
# usage: release_test.sh BUILD_DIR
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "${1:?usage: release_test.sh BUILD_DIR}")
skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "release_test: $*" >&2
  exit 1
}
command -v rpmbuild >/dev/null || skip "needs Debian's package rpm"
grep -q '^CARMA_OLD_LIBC:PATH=.' "$build/CMakeCache.txt" || skip "needs a build with Debian 11's C library (./dev release makes one)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --build "$build" --target portable >"$work/log" 2>&1 || fail "$(tail -n 5 "$work/log")"
export SOURCE_DATE_EPOCH=1000000000 COMPRESSION=gzip # fast; a release uses xz
for time in one two; do "$here/release.sh" "$work/$time" "$build" >"$work/log" 2>&1 || fail "$(tail -n 5 "$work/log")"; done
cmp "$work/one/SHA256SUMS" "$work/two/SHA256SUMS" || fail "made twice, the sums differ"
cd "$work/one"
sha256sum --check --quiet SHA256SUMS
for kind in 'carma-*.tar.gz' 'carma_*.deb' 'carma-doc_*.deb' 'python3-carma_*.deb' 'carma-*.rpm' 'carma-*.whl' RELEASE_NOTES.md MANIFEST; do
  [ "$(find . -name "$kind" | wc -l)" -eq 1 ] || fail "not one $kind"
done
grep -q '^carma .*commit' MANIFEST || fail "the manifest names no commit"
[ "$(dpkg-deb --field carma_*.deb Depends)" = 'libc6 (>= 2.28)' ] || fail "the package needs $(dpkg-deb --field carma_*.deb Depends)"
rpm -qp --requires carma-*.rpm 2>/dev/null | grep -q 'glibc >= 2.28' || fail "the rpm needs $(rpm -qp --requires carma-*.rpm)"
rpm -qpl carma-*.rpm 2>/dev/null | grep -x /usr/bin/carmad >/dev/null || fail "no carmad in the rpm"
python3 - carma-*.whl "$work/wheel" <<'END'
import base64, hashlib, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
for line in wheel.read(next(n for n in wheel.namelist() if n.endswith("RECORD"))).decode().splitlines():
    name, digest, size = line.split(",")
    if digest:
        data = wheel.read(name)
        found = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert len(data) == int(size) and digest == found, name
wheel.extractall(sys.argv[2])
END
PYTHONPATH=$work/wheel python3 -c 'import carma, carma_task; assert carma.Executor'
chmod +x "$work"/wheel/carma-*.data/scripts/carma
"$work"/wheel/carma-*.data/scripts/carma version
echo "release_test: passed"
