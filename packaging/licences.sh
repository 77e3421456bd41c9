# For packaging scripts: which licences of other projects are included, and where they come from.

# Libraries that are compiled in, so that no file shows their origin. The packages of Boost and the C++ library have their version
# in their names, so whichever version is installed is used.
COMPILED_IN=($(cd /usr/share/doc && ls -d libboost1.*-dev libstdc++-[0-9]*-dev | grep -E '^lib(boost1\.[0-9]+|stdc\+\+-[0-9]+)-dev$')
  libcli11-dev libeigen3-dev libfmt-dev libncurses-dev libspdlog-dev libsqlite3-dev libsqlitecpp-dev libtomlplusplus-dev
  nlohmann-json3-dev zlib1g-dev)

# keep_licence FOLDER PACKAGE: copies the copyright file of a Debian package.
keep_licence() {
  local package=${2%%:*}
  [ -e "$1/$package" ] || install -m 644 "/usr/share/doc/$package/copyright" "$1/$package"
}
