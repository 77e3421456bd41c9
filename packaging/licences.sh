# For scripts that pack: which licences of others go along, and where they come from.

# Compiled in, so that no file tells where they came from.
COMPILED_IN=(libboost1.81-dev libcli11-dev libeigen3-dev libfmt-dev libncurses-dev libspdlog-dev libsqlite3-dev libsqlitecpp-dev libstdc++-12-dev
  libtomlplusplus-dev nlohmann-json3-dev zlib1g-dev)

# keep_licence FOLDER PACKAGE: a copy of the copyright file of a Debian package.
keep_licence() {
  local package=${2%%:*}
  [ -e "$1/$package" ] || install -m 644 "/usr/share/doc/$package/copyright" "$1/$package"
}
