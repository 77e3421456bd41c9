#!/usr/bin/env bash
# Installs a release build below a folder and makes systemd reload its units. uninstall.sh removes it without the build.
# usage: install.sh BUILD_DIR PREFIX
set -euo pipefail
usage="usage: install.sh BUILD_DIR PREFIX"
case " $* " in *" -h "* | *" --help "*) echo "$usage" && exit ;; esac
[[ $# = 2 && $1 != -* && $2 != -* ]] || { echo "$usage" >&2 && exit 2; }
build=$1
prefix=$(realpath -m "$2")

list=$prefix/share/carma/installed
before=()
[ ! -r "$list" ] || mapfile -t before <"$list"
cmake --install "$build" --prefix "$prefix"
# Removes files of the older version that the new version does not have.
for file in "${before[@]}"; do
  [ -z "$file" ] || grep -qxF -- "$file" "$build/install_manifest.txt" || rm -f -- "$file"
done
install -m 644 "$build/install_manifest.txt" "$list"

case $prefix in
  /usr | /usr/local) found=yes ;;
  *) found= ;;
esac
if [ "$found" ] && [ -d /run/systemd/system ] && [ "$(id -u)" -eq 0 ]; then
  systemd-sysusers carma.conf
  systemd-tmpfiles --create carma.conf
  systemctl daemon-reload
fi
echo
echo "Next: carma init                         # a few questions, and a configuration"
if [ "$found" ]; then
  echo "      systemctl enable --now carmad      # for everybody; systemctl --user …: for yourself alone"
else
  echo "      systemctl link $prefix/lib/systemd/system/{carmad-shutdown,carmad-tasks}.service"
  echo "      systemctl enable --now $prefix/lib/systemd/system/carmad.service"
fi
echo "To remove it: PREFIX=$prefix ./dev uninstall"
