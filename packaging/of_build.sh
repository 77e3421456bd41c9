# For packaging scripts: version, machine and other facts of the build in the folder `build`. They are read from files, because
# the programs may be for another machine.

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
# machine_of PROGRAM: prints what `uname -m` prints on the program's machine, from the field e_machine of its ELF header.
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
