#!/usr/bin/env bash
# Removes what install.sh installed. The configuration and the database stay, and running tasks continue to their end.
# usage: uninstall.sh [PREFIX]   (default: the prefix in which this script is installed)
set -euo pipefail
usage="usage: uninstall.sh [PREFIX]   (default: the one that this script is installed in)"
case " $* " in *" -h "* | *" --help "*) echo "$usage" && exit ;; esac
[[ $# -le 1 && ${1-} != -* ]] || { echo "$usage" >&2 && exit 2; }
prefix=$(realpath -m "${1:-$(dirname "$(realpath "$0")")/../..}")
list=$prefix/share/carma/installed
[ -r "$list" ] || {
  echo "uninstall: no $list: nothing was installed below $prefix by install.sh or ./dev install" >&2
  exit 1
}

if [ -d /run/systemd/system ] && [ "$(id -u)" -eq 0 ] && systemctl is-enabled --quiet carmad 2>/dev/null &&
  [ "$(systemctl show --property=FragmentPath --value carmad)" = "$prefix/lib/systemd/system/carmad.service" ]; then
  systemctl stop carmad-shutdown
  systemctl disable --now carmad
  systemctl kill --kill-who=main carmad-tasks 2>/dev/null || true
fi
if [ "$(id -u)" -ne 0 ] && systemctl --user is-enabled --quiet carmad 2>/dev/null &&
  grep -qxF "$(systemctl --user show --property=FragmentPath --value carmad)" "$list"; then
  systemctl --user disable --now carmad
  systemctl --user kill --kill-who=main carmad-tasks 2>/dev/null || true
fi
mapfile -t files <"$list"
# A daemon that was started by hand continues, although its programs are gone.
for exe in /proc/[0-9]*/exe; do
  [ "$(readlink "$exe" 2>/dev/null)" = "$prefix/bin/carmad" ] || continue
  pid=${exe#/proc/} pid=${pid%/exe}
  echo "uninstall: carmad (process $pid) still runs; kill $pid ends it" >&2
done
rm -f -- "${files[@]}" "$list"
# Folders that were made for these files are removed once they are empty.
for file in "${files[@]}"; do
  folder=$(dirname "$file")
  while [[ $folder == "$prefix"/?* ]] && rmdir -- "$folder" 2>/dev/null; do folder=$(dirname "$folder"); done
done
# CARMA's own folders are removed unless other software has files there.
for folder in share/carma/python share/carma/gpu-proof share/carma libexec/carma; do
  [ ! -d "$prefix/$folder" ] || find "$prefix/$folder" -name __pycache__ -prune -exec rm -r {} +
  [ ! -d "$prefix/$folder" ] || find "$prefix/$folder" -depth -type d -empty -delete
done
if [ -d /run/systemd/system ] && [ "$(id -u)" -eq 0 ]; then systemctl daemon-reload; fi
echo "removed ${#files[@]} files below $prefix; what stays: /etc/carma, /var/lib/carma (an ordinary user's: ~/.config/carma, ~/.local/state/carma)"
