#!/usr/bin/env bash
# Packs a release build with the programs of the target `portable` into an RPM package, for RHEL, Rocky and Alma 8 and newer and Fedora.
# The same build gives the same bytes.
# usage: rpm.sh BUILD_DIR OUTPUT_DIR   prints the path of the package
set -euo pipefail
umask 022
build=$(realpath "${1:?usage: rpm.sh BUILD_DIR OUTPUT_DIR}")
mkdir -p "${2:?usage: rpm.sh BUILD_DIR OUTPUT_DIR}"
output=$(realpath "$2")
source=$(realpath "$(dirname "$0")/..")
. "$source/packaging/licences.sh"
. "$source/packaging/of_build.sh"
command -v rpmbuild >/dev/null || { echo "rpm: needs Debian's package rpm" >&2; exit 77; }

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
DESTDIR="$root" cmake --install "$build" --prefix /usr --strip >"$work/log" || { tail -n 3 "$work/log" >&2; exit 1; }
"$source/packaging/use_portable.sh" "$build" "$root"
# The plug-in built on Debian only works with Debian's Slurm.
rm -rf "$root/usr/lib/carma/slurm"
mkdir -p "$root/usr/lib/carma"
mv "$root/usr/lib/libcarma-simgpu.so" "$root/usr/lib/carma/"
find "$root/usr/share/man" -type f -exec gzip -9n {} +
install -D -m 644 "$source/packaging/carma.toml" "$root/etc/carma/carma.toml"
documents=$root/usr/share/doc/carma
mkdir -p "$documents/licences"
cp -r "$source"/{README.md,CHANGELOG.md,LICENSE,NOTICE,docs} "$documents"
for package in "${COMPILED_IN[@]}"; do keep_licence "$documents/licences" "$package"; done
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

cat >"$work/carma.spec" <<END
Name: carma
Version: $version
Release: 1
Summary: Resource manager of one multi-GPU server
License: Apache-2.0
Requires: glibc >= 2.28, systemd
AutoReqProv: no

%description
People submit training tasks; CARMA predicts what each one needs, watches
what each GPU really has, puts several tasks on one GPU when that pays, and
brings back a task that ran out of GPU memory. The daemon, the command, a
simulated GPU server, and the module for Python in /usr/share/carma/python.

%install
cp -a $root/. %{buildroot}/

%post
systemd-sysusers carma.conf || :
systemd-tmpfiles --create carma.conf || :
systemctl daemon-reload >/dev/null 2>&1 || :
if [ \$1 -gt 1 ]; then systemctl try-restart carmad.service >/dev/null 2>&1 || :; fi

%preun
if [ \$1 -eq 0 ]; then
  systemctl stop carmad-shutdown.service >/dev/null 2>&1 || :
  systemctl disable --now carmad.service >/dev/null 2>&1 || :
  systemctl kill --kill-who=main carmad-tasks.service >/dev/null 2>&1 || :
fi

%postun
systemctl daemon-reload >/dev/null 2>&1 || :

%files
%config(noreplace) /etc/carma/carma.toml
$(cd "$root" && find . \( -type f -o -type l \) ! -path './etc/*' -printf '"/%P"\n' | LC_ALL=C sort)
END
rpmbuild -bb --target "$machine" --define "_topdir $work/rpm" --define "_rpmdir $work/out" --define "_buildhost carma" \
  --define '_binary_payload w9.gzdio' --define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' \
  --define '_build_id_links none' --define '__os_install_post %{nil}' --define 'debug_package %{nil}' \
  "$work/carma.spec" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 1; }
file=$(find "$work/out" -name '*.rpm')
mv "$file" "$output/"
echo "$output/$(basename "$file")"
