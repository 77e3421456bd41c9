#!/usr/bin/env bash
# Types README's commands in a minimal Debian, as on a machine that has only a network: in a root folder made by debootstrap, in separate
# mount and process namespaces. The packed root is kept in ${XDG_CACHE_HOME:-~/.cache}/carma-bare and made again after a month.
#
# usage: bare.sh [12|13] [--demo] [--test] [--all] [--user] [--cache]
#   --demo, --test  type ./dev demo, ./dev test (default: both)
#   --all           type ./dev test --all instead of ./dev test
#   --user          as an ordinary user with sudo, not as root
#   --cache         with this machine's compiler cache
# usage: bare.sh unpack 11|12|13|22.04|24.04 FOLDER [ARCHITECTURE]
#   unpacks the minimal root, of Debian or Ubuntu, into the new FOLDER, in which Debian's apt uses the mirrors of this machine's apt
#   another ARCHITECTURE, such as arm64: the files of Debian's required packages, which are not configured
#
# Exit status: that of the first command that failed. 77: no minimal root can be made here; the last line says why.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
self=$(realpath "$0")
checkout=$(dirname "$(dirname "$self")")
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/carma-bare
READY_S=900       # time limit for making the root; all steps before the first command that need the network share it
SPACE_MIB=8000    # for packages and a build
USER_NAME=ann
UBUNTU_KEYS=/usr/share/keyrings/ubuntu-archive-keyring.gpg

cannot() {
  echo "no bare Debian can be made here: $*" >&2
  exit 77
}

# within COMMAND...: stops the command if the root is not ready in time.
within() {
  local left=$((READY_S - SECONDS))
  timeout --kill-after=10 $((left > 1 ? left : 1)) "$@"
}

codename() {
  case "$1" in
    11) echo bullseye ;;
    12) echo bookworm ;;
    13) echo trixie ;;
    22.04) echo jammy ;;
    24.04) echo noble ;;
    *) echo "bare.sh: unknown release '$1', expected Debian 11, 12 or 13, or Ubuntu 22.04 or 24.04" >&2; return 2 ;;
  esac
}

# Prints the mirrors of this machine's apt as lines of sources.list for that codename; nothing if this machine is not a Debian.
mirrors() {
  local here
  here=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk -v here="$here" -v wanted="$1" '
      $3 == "main" && ($2 == here || $2 == here "-updates" || $2 == here "-security") {
        sub("^" here, wanted, $2)
        line = "deb " $1 " " $2 " main"
        if (!seen[line]++) print line
      }' || true
}

# make_root CODENAME [ARCHITECTURE]: makes the packed root.
make_root() {
  local packed=$cache/$1${2:+-$2}.tar work mirror proxy= options=() script=
  exec 8>"${packed%.tar}.lock"
  flock -w $READY_S 8 || cannot "another run makes the root and does not finish"
  [ -z "$(find "$packed" -mtime -30 2>/dev/null)" ] || return 0
  if ! command -v debootstrap >/dev/null; then
    (within apt-get update -qq &&
      DEBIAN_FRONTEND=noninteractive within apt-get install -y -qq --no-install-recommends debootstrap) >"$cache/log" 2>&1 </dev/null ||
      cannot "debootstrap could not be installed: $(tail -n 1 "$cache/log")"
  fi
  mirror=$(mirrors "$1" | awk -v wanted="$1" '$3 == wanted {print $2; exit}')
  [ -z "${2:-}" ] || options+=("--arch=$2" --foreign)
  if [[ $1 == jammy || $1 == noble ]]; then
    [ -r $UBUNTU_KEYS ] || cannot "needs Debian's package ubuntu-keyring"
    mirror=http://archive.ubuntu.com/ubuntu script=gutsy # as for all releases of Ubuntu
    options+=("--keyring=$UBUNTU_KEYS")
  fi
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  [ -z "$proxy" ] || export http_proxy=${http_proxy:-$proxy}
  work=$(mktemp -d "$cache/make.XXXXXX")
  # In separate namespaces, so that debootstrap's mounts disappear with them.
  within unshare --mount --pid --fork --kill-child --mount-proc \
    debootstrap --variant=minbase ${options[@]+"${options[@]}"} "$1" "$work/root" ${mirror:+"$mirror"} $script >"$cache/log" 2>&1 </dev/null || {
    rm -rf --one-file-system "$work"
    cannot "debootstrap: $(tail -n 1 "$cache/log")"
  }
  rm -f "$work"/root/var/cache/apt/archives/*.deb
  tar -C "$work/root" --one-file-system --numeric-owner -cf "$packed.part" .
  rm -rf --one-file-system "$work"
  mv "$packed.part" "$packed"
}

# unpack CODENAME FOLDER [ARCHITECTURE]: unpacks a fresh root. Debian's root uses the network as this machine does.
unpack() {
  local lines=
  mkdir -p "$cache"
  (make_root "$1" "${3:-}")
  mkdir "$2"
  tar -C "$2" --numeric-owner -xpf "$cache/$1${3:+-$3}.tar"
  [[ $1 == jammy || $1 == noble ]] || lines=$(mirrors "$1")
  [ -z "$lines" ] || echo "$lines" >"$2/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries|ForceIPv)' >"$2/etc/apt/apt.conf.d/90machine" || true
  cp -L /etc/resolv.conf /etc/hosts "$2/etc/" 2>/dev/null || true
  if [[ $lines == *https://* && -r /etc/ssl/certs/ca-certificates.crt ]]; then
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/ca-certificates.crt"
  fi
}

# Runs inside the new root as its first process: types the commands and reports how long each took.
typed() {
  local home=$1 user=$2 failed=0 report= command code began
  shift 2
  cd "$home/carma"
  for command in "$@"; do
    echo "\$ $command"
    began=$SECONDS code=0
    rm -f build/took # "packages 80 s, build 600 s", written by ./dev
    if [ "$user" ]; then
      runuser -u "$user" -- $command </dev/null || code=$?
    else
      $command </dev/null || code=$?
    fi
    report+="$command: exit code $code after $((SECONDS - began)) s$([ ! -e build/took ] || echo " ($(cat build/took))")"$'\n'
    [ $failed -ne 0 ] || failed=$code
  done
  printf '%s' "$report"
  exit $failed
}

# Runs in separate namespaces: makes ROOT the root folder and types the commands there.
enter() {
  local root=$1 home=$2 user=$3 pair name settings=()
  shift 3
  mount --make-rprivate /
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  for pair in ${CARMA_BARE_BINDS:-}; do
    mkdir -p "$root${pair#*:}"
    mount --bind "${pair%%:*}" "$root${pair#*:}"
  done
  settings+=("CI=${CI:-true}") # a compiler warning fails the build
  for name in JOBS http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
  done
  # ccache includes LANG in its key. The root has no other locale.
  [ "${LANG:-}" != C.UTF-8 ] || settings+=("LANG=$LANG")
  cd "$root"
  mkdir .before
  # Tested programs make namespaces too, which the kernel refuses in a root that is not a mount point.
  pivot_root . .before
  umount -l .before
  rmdir .before
  exec env -i "HOME=$home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" \
    /bin/bash -c "$(declare -f typed); typed \"\$@\"" bare.sh "$home" "$user" "$@"
}

# The files of the checkout, each followed by NUL: those that git tracks or, outside of a clone, all except what a build makes.
checked_out() {
  local file
  if git -C "$checkout" rev-parse --git-dir >/dev/null 2>&1; then
    git -C "$checkout" ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' file; do
      [ ! -e "$checkout/$file" ] && [ ! -L "$checkout/$file" ] || printf '%s\0' "$file"
    done
  else
    (cd "$checkout" && find . \( -path ./build -o -path ./out -o -path ./.git -o -name __pycache__ \) -prune -o ! -type d -print0)
  fi
}

type_in() {
  local release=12 user= cached= commands=() all= name work root home binds= child= code=0 began=$SECONDS
  for word in "$@"; do
    case "$word" in
      12 | 13) release=$word ;;
      --demo) commands+=("./dev demo") ;;
      --test) commands+=("./dev test") ;;
      --all) all=1 ;;
      --user) user=$USER_NAME ;;
      --cache) cached=1 ;;
      *)
        echo "usage: bare.sh [12|13] [--demo] [--test] [--all] [--user] [--cache]" >&2
        exit 2
        ;;
    esac
  done
  [ ${#commands[@]} -gt 0 ] || commands=("./dev demo" "./dev test")
  [ -z "$all" ] || commands=("${commands[@]/%.\/dev test/./dev test --all}")
  name=$(codename "$release")
  [ "$(id -u)" -eq 0 ] || cannot "needs root"
  command -v apt-get >/dev/null || cannot "this machine has no apt"
  unshare --mount --pid --fork true 2>/dev/null || cannot "this machine forbids namespaces"
  mkdir -p "$cache" || cannot "$cache cannot be written"
  # Roots that killed runs left behind.
  for work in "$cache"/run.*; do
    [ ! -e "$work/lock" ] || ! flock -n "$work/lock" true || rm -rf --one-file-system "$work"
  done
  [ "$(df -m --output=avail "$cache" | tail -n 1)" -ge $SPACE_MIB ] || cannot "less than $SPACE_MIB MiB are free in $cache"
  work=$(mktemp -d "$cache/run.XXXXXX")
  # The variables are local, so the trap gets their present values.
  trap "rm -rf --one-file-system '$work'" EXIT
  trap 'exit 143' TERM INT HUP
  exec 9>"$work/lock"
  flock 9
  root=$work/root
  unpack "$name" "$root"
  chmod 755 "$work"

  home=/root
  if [ "$user" ]; then
    home=/home/$user
    chroot "$root" useradd --create-home --shell /bin/bash "$user"
  fi
  # Without a network, no command could succeed. The ordinary user has sudo.
  within unshare --mount --pid --fork --kill-child chroot "$root" \
    /bin/sh -c "apt-get update -qq -o APT::Update::Error-Mode=any && { [ -z '$user' ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends sudo; }" \
    >"$work/log" 2>&1 </dev/null || cannot "apt has no network in it: $(tail -n 1 "$work/log")"
  [ -z "$user" ] || echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"
  rm -rf "$root"/var/lib/apt/lists/*
  mkdir "$root$home/carma"
  checked_out | tar -C "$checkout" --null --no-recursion --files-from=- -c | tar -C "$root$home/carma" --no-same-owner -xp
  if [ "$cached" ]; then
    if [ "$user" ]; then
      binds=$cache/ccache-$user:$home/.cache/ccache
    else
      binds="${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}:$home/.cache/ccache $cache:$home/.cache/carma-bare"
    fi
    for pair in $binds; do mkdir -p "${pair%%:*}" "$root${pair#*:}"; done
  fi
  [ -z "$user" ] || chroot "$root" chown -R "$user:" "$home"
  [ -z "$user" ] || [ -z "$cached" ] || chown "$(stat -c %u "$root$home")" "$cache/ccache-$user"

  echo "A bare Debian $release, made in $((SECONDS - began)) s, in which ${user:-root} types: $(printf '%s; ' "${commands[@]}" | sed 's/; $//')"
  # In the background, because bash handles signals while it waits, but not while a command runs.
  CARMA_BARE_BINDS=$binds unshare --mount --pid --fork --kill-child "$self" enter "$root" "$home" "$user" "${commands[@]}" </dev/null 9>&- &
  child=$!
  trap "kill -KILL $child 2>/dev/null; wait $child 2>/dev/null; exit 143" TERM INT HUP
  wait $child || code=$?
  exit $code
}

case "${1:-}" in
  unpack) unpack "$(codename "$2")" "$3" "${4:-}" ;;
  enter) shift && enter "$@" ;;
  *) type_in "$@" ;;
esac
