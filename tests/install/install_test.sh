#!/usr/bin/env bash
# Installs h5scr into a fresh prefix and builds a tiny project against it, by find_package and by
# pkg-config; moves the prefix first, so that nothing depends on where it was built.
#   install_test.sh BUILD_DIR
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }
# The programs leave nothing where users have their own.
export SCR_PREFIX=$work/run SCR_CNTL_BASE=$work/run SCR_CACHE_BASE=$work/run
mkdir "$work/run"

cmake --install "$build" --prefix "$work/first" > "$work/install.log"
mv "$work/first" "$work/prefix"
version=$(sed -n 's/#define H5SCR_VERSION "\(.*\)"/\1/p' "$build/include/h5scr/version.hpp")
grep -rqF "$build" "$work/prefix/lib" --include='*.cmake' --include='*.pc' && fail "the package names the build directory"

cmake -S "$here" -B "$work/b" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/configure.log" || { cat "$work/configure.log"; fail "find_package(h5scr)"; }
cmake --build "$work/b" > "$work/build.log" || { cat "$work/build.log"; fail "building a user's project"; }
for program in user user_mpiio; do
  got=$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$work/b/$program")
  [ "$got" = "v$version" ] || fail "$program printed '$got', expected 'v$version'"
done
[ -f "$(cat "$work/b/vfd_location")" ] || fail "h5scr::vfd is not there"
[ "$(dirname "$(cat "$work/b/vfd_location")")" = "$(cat "$work/b/plugin_dir")" ] || fail "the plug-in is not in its folder"
[ "$(ls "$(cat "$work/b/plugin_dir")")" = libh5fd_scr.so ] || fail "the plug-in is not alone in its folder"
readelf -d "$work/b/user_mpiio" | grep -q 'libscr_mpiio.so' || fail "h5scr::mpiio was not linked"

# pkg-config
pc=$(dirname "$(find "$work/prefix" -name h5scr.pc)")
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs h5scr)
# shellcheck disable=SC2086
mpicc "$here/user.c" -o "$work/user_pc" $flags
got=$(LD_LIBRARY_PATH=$(dirname "$pc") OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$work/user_pc")
[ "$got" = "v$version" ] || fail "pkg-config program printed '$got'"

# The module file names folders that are there, relative to itself.
module=$work/prefix/share/modulefiles/h5scr/$version
[ -f "$module" ] || fail "there is no module file"
grep -qF "$build" "$module" && fail "the module file names the build directory"
up=$(sed -n 's/^set prefix .* \([./]*\)\]\]$/\1/p' "$module")
[ "$(cd "$(dirname "$module")/$up" && pwd)" = "$(cd "$work/prefix" && pwd)" ] || fail "the module file has another prefix: '$up'"
folders=$(sed -n 's/^prepend-path [A-Z0-9_]* \$prefix//p' "$module")
[ "$(wc -l <<<"$folders")" = 7 ] || fail "the module file sets other paths: $folders"
while read -r folder; do
  [ -d "$work/prefix/$folder" ] || fail "the module file names '$folder', which is not there"
done <<<"$folders"

# commands run from the installed place, with only their own libraries
for command in "$work"/prefix/bin/scr_*; do
  "$command" --help > /dev/null || fail "$(basename "$command") --help"
done
echo "4 passed, 0 failed"
