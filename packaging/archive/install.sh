#!/bin/sh
# Installs CARMA from the folder of this unpacked archive, without a compiler and without the network.
set -eu
umask 022
usage() {
  cat <<'EOF'
usage: ./install.sh [--prefix FOLDER]     root: into /usr/local, for everybody; others: into ~/.local, for themselves
       ./install.sh --uninstall [--prefix FOLDER]     remove it again; configuration and books stay
EOF
}
fail() {
  echo "install.sh: $*" >&2
  exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
prefix= uninstall=
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -gt 1 ] || { usage >&2; exit 2; }; prefix=$2; shift ;;
    --prefix=*) prefix=${1#*=} ;;
    --uninstall) uninstall=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
own=
if [ "$(id -u)" -ne 0 ]; then own=yes; fi
[ "$prefix" ] || if [ "$own" ]; then prefix=${HOME:?}/.local; else prefix=/usr/local; fi
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac

if [ "$uninstall" ]; then exec "$prefix/share/carma/uninstall.sh" "$prefix"; fi
cd "$here"
sha256sum --check --status SHA256SUMS || fail "the archive is damaged: $(sha256sum --check --quiet SHA256SUMS 2>/dev/null | head -n 1)"
./bin/carma version >/dev/null || fail "the programs do not run here: they need $(cat share/carma/needs) or newer"

# The new list is written first, so that an interrupted installation can be removed or replaced as a whole.
list=$prefix/share/carma/installed
mkdir -p "$prefix/share/carma" || fail "no right to write to $prefix (as root: into /usr/local)"
if [ -r "$list" ]; then before=$(cat "$list"); else before=; fi
# The folder in which systemd looks for the units of a user who installed only for their own account.
user_units=lib/systemd/user
if [ "$own" ] && [ "$prefix" = "$HOME/.local" ]; then user_units=share/systemd/user; fi
files=$(sed 's/^[0-9a-f]*  //' SHA256SUMS | grep -vx 'install.sh')
place() { # prints the path to which a file of the archive goes
  case $1 in
    lib/systemd/user/*) echo "$prefix/$user_units/${1##*/}" ;;
    *) echo "$prefix/$1" ;;
  esac
}
wanted=$(echo "$files" | while read -r file; do
  case $own:$file in yes:lib/systemd/system/* | yes:lib/sysusers.d/* | yes:lib/tmpfiles.d/*) continue ;; esac
  place "$file"
done)
printf '%s\n' "$wanted" "$before" | grep . | sort -u >"$list.new"
mv "$list.new" "$list"
echo "$files" | while read -r file; do
  to=$(place "$file")
  case $own:$file in yes:lib/systemd/system/* | yes:lib/sysusers.d/* | yes:lib/tmpfiles.d/*) continue ;; esac
  mkdir -p "${to%/*}"
  # Each file is written beside its target and then renamed, so running programs keep the old file.
  case $file in
    lib/systemd/*) sed "s|/usr/local/|$prefix/|g" "$file" >"$to.new" ;;
    *) cp -P "$file" "$to.new" ;;
  esac
  [ -L "$file" ] || chmod "$(stat -c %a "$file")" "$to.new"
  mv -f "$to.new" "$to"
done
# Removes files of the older version that the new version does not have.
echo "$before" | while read -r file; do
  [ -z "$file" ] || echo "$wanted" | grep -qxF -- "$file" || rm -f -- "$file"
done
echo "$wanted" >"$list"

if [ -d /run/systemd/system ] && [ -z "$own" ] && { [ "$prefix" = /usr/local ] || [ "$prefix" = /usr ]; }; then
  systemd-sysusers carma.conf
  systemd-tmpfiles --create carma.conf
  systemctl daemon-reload
fi
echo "$("$prefix/bin/carma" version) is installed in $prefix"
echo
echo "Type next:"
case :$PATH: in *":$prefix/bin:"*) ;; *) echo "  export PATH=$prefix/bin:\$PATH" ;; esac
echo "  carma demo                      # 60 tasks on simulated GPUs, in two minutes"
echo "  carma doctor                    # what this machine has, and what it lacks"
# A daemon of the older version continues until it is restarted.
old=
for exe in /proc/[0-9]*/exe; do
  [ "$(readlink "$exe" 2>/dev/null)" = "$prefix/bin/carmad (deleted)" ] || continue
  [ "$(stat -c %u "${exe%/exe}")" = "$(id -u)" ] || continue
  old=${exe#/proc/} old=${old%/exe}
  break
done
manager=systemctl${own:+ --user}
if [ "$old" ] && $manager is-active --quiet carmad 2>/dev/null; then
  echo "  $manager restart carmad   # runs the new version; tasks continue"
elif [ "$old" ]; then
  echo "  kill $old; sleep 2; carmad --background   # with the options it had; runs the new version; tasks continue"
elif [ -z "$own" ] && [ -d /run/systemd/system ]; then
  if [ "$prefix" = /usr/local ] || [ "$prefix" = /usr ]; then
    echo "  systemctl enable --now carmad   # for everybody on this server"
  else
    echo "  systemctl link $prefix/lib/systemd/system/{carmad-shutdown,carmad-tasks}.service"
    echo "  systemctl enable --now $prefix/lib/systemd/system/carmad.service   # for everybody on this server"
  fi
else
  if [ "$own" ]; then for=yourself; else for="everybody on this server"; fi
  echo "  carmad --background             # for $for"
fi
echo "  carma submit --gpu-mem 12G -- python3 train.py"
echo "To remove it: $prefix/share/carma/uninstall.sh"
