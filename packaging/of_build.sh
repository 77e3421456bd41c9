# For scripts that pack: what their build, whose folder is `build`, is of and for. Read from files, because the programs may be another machine's.

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
# machine_of PROGRAM: what `uname -m` prints where it runs, from the field e_machine of its ELF header.
machine_of() {
  case $(od -An -tu2 -j 18 -N 2 "$1") in
    *62) echo x86_64 ;;
    *183) echo aarch64 ;;
    *) echo "of_build: $1 is for a machine that is not known here" >&2; return 1 ;;
  esac
}
version=$(cached CMAKE_PROJECT_VERSION)
strip=$(cached CMAKE_STRIP)
objdump=$(cached CMAKE_OBJDUMP)
machine=$(machine_of "$build/bin/carma")
