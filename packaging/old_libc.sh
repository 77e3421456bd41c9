#!/usr/bin/env bash
# Prints a folder with the C library of Debian 11, which programs that shall start on old distributions are linked against
# (CARMA_OLD_LIBC in cmake/carma.cmake). The folder is made once, with apt-get from the mirror that this machine's apt uses, and kept in
# ${XDG_CACHE_HOME:-~/.cache}/carma-old-libc. Needs no root.
set -euo pipefail
PACKAGES=(libc6 libc6-dev linux-libc-dev libcrypt1 libcrypt-dev libnsl2 libnsl-dev)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/carma-old-libc
architecture=$(dpkg --print-architecture)
root=$cache/bullseye-$architecture

if [ ! -e "$root/usr/lib/made" ]; then
  mkdir -p "$cache"
  exec 8>"$cache/lock"
  flock 8
fi
if [ ! -e "$root/usr/lib/made" ]; then
  work=$(mktemp -d "$cache/make.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "bookworm" || $2 == "trixie" {print $1; exit}')
  mkdir -p "$work"/{lists,cache/archives}/partial "$work"/{debs,root}
  chmod 755 "$work"
  touch "$work/status"
  echo "deb ${mirror:-http://deb.debian.org/debian} bullseye main" >"$work/sources"
  apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$work/lists"
    -o "Dir::State::Status=$work/status" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=)
  if ! { "${apt[@]}" update && cd "$work/debs" && "${apt[@]}" download "${PACKAGES[@]}"; } >"$work/log" 2>&1; then
    echo "old_libc: Debian 11's C library cannot be fetched: $(tail -n 1 "$work/log")" >&2
    exit 77
  fi
  for package in "$work"/debs/*.deb; do dpkg-deb -x "$package" "$work/root"; done
  # Links between its folders name absolute paths, which would lead to this machine's C library.
  find "$work/root" -type l -lname '/*' | while IFS= read -r link; do
    ln -sfr "$work/root$(readlink "$link")" "$link"
  done
  rm -rf "$work/root/usr/share"
  touch "$work/root/usr/lib/made"
  rm -rf "$root"
  mv "$work/root" "$root"
fi
echo "$root"
