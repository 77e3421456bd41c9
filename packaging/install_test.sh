#!/usr/bin/env bash
# Installs a build into an empty folder and removes it again. Nothing is left, and other files there stay.
# usage: install_test.sh BUILD_DIR
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "${1:?usage: install_test.sh BUILD_DIR}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "install_test: $*" >&2
  exit 1
}

# A request for help or a mistyped argument neither installs nor removes anything.
cd "$work"
for script in install.sh uninstall.sh; do
  [[ $("$here/$script" --help) == "usage: $script"* ]] || fail "$script --help"
  for words in "--all" "a b c"; do
    code=0
    # shellcheck disable=SC2086  # several words
    "$here/$script" $words 2>"$work/said" || code=$?
    [ $code = 2 ] || fail "$script $words ended with $code"
    grep -q "^usage: $script" "$work/said" || fail "$script $words: $(cat "$work/said")"
  done
done
for verb in install uninstall; do
  PREFIX=$work/opt "$here/../dev" $verb --help | grep -q "^usage: ./dev COMMAND" || fail "./dev $verb --help"
  code=0
  PREFIX=$work/opt "$here/../dev" $verb now 2>"$work/said" || code=$?
  [ $code = 2 ] && grep -q "dev: $verb takes no argument, not 'now'" "$work/said" || fail "./dev $verb now: $code, $(cat "$work/said")"
done
[ ! -e "$work/opt" ] || fail "something was installed"

"$here/install.sh" "$build" "$work/opt" >"$work/said"
grep -q "systemctl enable --now $work/opt/lib/systemd/system/carmad.service" "$work/said" || fail "$(tail -n 4 "$work/said")"
for kind in system user; do
  units=$work/opt/lib/systemd/$kind
  grep -q "^ExecStart=$work/opt/bin/carmad$" "$units/carmad.service" || fail "the unit starts another carmad"
  # carmad.service wants the other two units, so they need no `systemctl enable`.
  grep -q "^Wants=carmad-shutdown.service$" "$units/carmad.service" || fail "nothing is wanted for the shutdown"
  grep -q "^Wants=carmad-tasks.service$" "$units/carmad.service" || fail "no group is wanted for the tasks"
  grep -q "^ExecStop=$work/opt/libexec/carma/at-shutdown" "$units/carmad-shutdown.service" || fail "the unit asks nobody to save"
done
grep -q "^After=.* nss-user-lookup.target$" "$work/opt/lib/systemd/system/carmad.service" || fail "carmad starts before the name service"
[ -x "$work/opt/libexec/carma/at-shutdown" ] || fail "no program for the shutdown"
for page in man1/carma.1 man8/carmad.8 man5/carma.toml.5 man5/carma-tasks.5; do
  [ "$(grep -c '^\.SH' "$work/opt/share/man/$page")" -ge 4 ] || fail "the manual page $page has too few sections"
done
# Each verb of the command has a place in its manual page.
for verb in $("$work/opt/bin/carma" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\).*/\1/p'); do
  grep -q "^\.SS \"carma $verb" "$work/opt/share/man/man1/carma.1" || fail "carma $verb is not in carma(1)"
done
if command -v systemd-analyze >/dev/null; then
  systemd-analyze verify "$work"/opt/lib/systemd/system/{carmad,carmad-shutdown,carmad-tasks}.service
  XDG_RUNTIME_DIR=$work systemd-analyze --user verify "$work"/opt/lib/systemd/user/{carmad,carmad-shutdown,carmad-tasks}.service
fi

# Installs over an older version that had a file which this version does not have.
touch "$work/opt/bin/carma-old"
printf "\n%s\n" "$work/opt/bin/carma-old" >>"$work/opt/share/carma/installed"
"$here/install.sh" "$build" "$work/opt" >/dev/null
[ ! -e "$work/opt/bin/carma-old" ] || fail "a file of the older version stays"

mkdir -p "$work/opt/share/carma/python/__pycache__"
touch "$work/opt/bin/other"
cp --remove-destination /bin/sleep "$work/opt/bin/carmad"
"$work/opt/bin/carmad" 60 &
by_hand=$!
"$here/uninstall.sh" "$work/opt" >/dev/null 2>"$work/said"
kill $by_hand
grep -q "carmad (process $by_hand) still runs" "$work/said" || fail "a carmad that was started by hand: $(cat "$work/said")"
left=$(cd "$work/opt" && find . -type f)
[ "$left" = ./bin/other ] || fail "left behind: $left"
[ ! -e "$work/opt/share/carma" ] || fail "left behind: share/carma"
! "$here/uninstall.sh" "$work/opt" 2>"$work/said" || fail "nothing to remove, and it says nothing"
grep -q "nothing was installed" "$work/said" || fail "$(cat "$work/said")"
echo "install_test: passed"
