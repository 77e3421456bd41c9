#!/usr/bin/env bash
# Prints a folder with the C library of Debian 11, against which programs for old distributions are linked (CARMA_OLD_LIBC in
# cmake/carma.cmake). For another architecture, such as arm64, its folder `libraries` has those libraries of this machine's Debian
# release that are compiled in. The folder is made once, with apt-get from the mirror of this machine's apt, and kept in
# ${XDG_CACHE_HOME:-~/.cache}/carma-old-libc. Needs no root and installs nothing.
# usage: old_libc.sh [ARCHITECTURE]   (default: this machine's)
set -euo pipefail
PACKAGES=(libc6 libc6-dev linux-libc-dev libcrypt1 libcrypt-dev libnsl2 libnsl-dev)
LIBRARIES=(libsqlitecpp-dev libsqlite3-dev zlib1g-dev libncurses-dev)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/carma-old-libc
architecture=${1:-$(dpkg --print-architecture)}
root=$cache/bullseye-$architecture

# fetch CODENAME FOLDER PACKAGE…: unpacks packages of that Debian release into FOLDER.
fetch() {
  local codename=$1 folder=$2 package link apt
  shift 2
  rm -rf "$work/debs"
  mkdir -p "$work/debs" "$folder"
  echo "deb ${mirror:-http://deb.debian.org/debian} $codename main" >"$work/sources"
  apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$work/lists"
    -o "Dir::State::Status=$work/status" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=
    -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture")
  if ! { "${apt[@]}" update && (cd "$work/debs" && "${apt[@]}" download "$@"); } >"$work/log" 2>&1; then
    echo "old_libc: packages of Debian's $codename cannot be fetched for $architecture: $(tail -n 1 "$work/log")" >&2
    exit 77
  fi
  for package in "$work"/debs/*.deb; do dpkg-deb -x "$package" "$folder"; done
  # Links between the folders have absolute paths, which would lead to this machine's files.
  find "$folder" -type l -lname '/*' | while IFS= read -r link; do
    ln -sfr "$folder$(readlink "$link")" "$link"
  done
  rm -rf "$folder/usr/share"
}

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
  mkdir -p "$work"/{lists,cache/archives}/partial
  chmod 755 "$work"
  touch "$work/status"
  fetch bullseye "$work/root" "${PACKAGES[@]}"
  if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
    fetch "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$work/root/libraries" "${LIBRARIES[@]}"
  fi
  touch "$work/root/usr/lib/made"
  rm -rf "$root"
  mv "$work/root" "$root"
fi
echo "$root"
