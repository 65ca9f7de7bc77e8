#!/usr/bin/env bash
# Runs HDF5's own test programs with the driver "scr": those that HDF5 runs with each of its drivers.
#   tests/hdf5/run_hdf5_vfd_tests.sh [--quick | --only "NAME..."] [--baseline] [--jobs N] BUILD_DIR
# The programs come from the source package that h5scr's HDF5 is built from (BUILD_DIR/deps/src/hdf5).
# They are built once into BUILD_DIR/hdf5-tests, and run with BUILD_DIR/plugin/libh5fd_scr.so; the output
# of each stays in BUILD_DIR/hdf5-tests/run.
#   --quick      programs that take a few seconds each; under a minute in all
#   --only       these programs
#   --baseline   with HDF5's own driver sec2 in place of ours, to compare
# Prints a line for each program. "parts skipped" counts what the program itself leaves out with a driver
# other than the default. Exits 1 if one fails.
set -euo pipefail

die() { echo "hdf5-tests: $*" >&2; exit 1; }

quick="app_ref btree2 cache_logging cmpd_dset dangle direct_chunk earray efc enc_dec_plist enum evict_on_close
  extend external farray file_image fillval flush1 flush2 freespace getname gheap lheap mdset mf mount mtime
  ohdr page_buffer stab swmr unlink unregister vol"
programs="" driver=scr jobs=$(nproc) build=""
while [ $# -gt 0 ]; do
  case $1 in
    --quick) programs=$quick ;;
    --only) programs=$2; shift ;;
    --baseline) driver=sec2 ;;
    --jobs) jobs=$2; shift ;;
    -*) die "unknown option $1; see the head of $0" ;;
    *) build=$1 ;;
  esac
  shift
done
[ -n "$build" ] || die "give the build directory of h5scr"
build=$(cd "$build" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
source=$build/deps/src/hdf5
work=$build/hdf5-tests
plugin=$build/plugin
[ -f "$source/test/CMakeVFDTests.cmake" ] || die "no HDF5 source in $source: run 'make deps' without HDF5_ROOT"
[ -f "$plugin/libh5fd_scr.so" ] || die "no driver in $plugin: run 'make'"
mkdir -p "$work"

configure() {
  [ -f "$work/b/build.ninja" ] && return
  cmake -S "$source" -B "$work/b" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DBUILD_STATIC_LIBS=OFF -DHDF5_ENABLE_PARALLEL=ON -DHDF5_BUILD_CPP_LIB=OFF -DHDF5_BUILD_FORTRAN=OFF \
    -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_HL_LIB=OFF -DBUILD_TESTING=ON \
    -DHDF5_TEST_VFD=ON -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_SZIP_SUPPORT=OFF \
    > "$work/configure.log" 2>&1 || { tail -n 20 "$work/configure.log" >&2; die "cannot configure HDF5's tests"; }
}

# HDF5's build files say which programs belong to the set.
all_programs() { grep -o 'add_test(VFD-sec2-[a-z0-9_]*' "$work/b/test/CTestTestfile.cmake" | sed 's/.*VFD-sec2-//' | sort -u; }

# Runs one program (flush2 in the folder of flush1, whose files it reads) and prints its line.
run_one() {
  local name=$1 folder=$work/run/${1/flush2/flush1} start=$SECONDS code=0
  mkdir -p "$folder"
  local set=(HDF5_DRIVER="$driver" srcdir="$source/test" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
  [ "$driver" = sec2 ] || set+=(HDF5_PLUGIN_PATH="$plugin" LD_PRELOAD="$work/libh5testshim.so")
  (cd "$folder" && env "${set[@]}" timeout -k 10 1800 "$work/b/bin/$name" > "$work/run/$name.out" 2>&1) || code=$?
  local skipped word=pass
  skipped=$(grep -c -- '-SKIP-' "$work/run/$name.out" || true)
  [ "$code" -eq 0 ] || word=FAIL
  printf '%s  %-30s %4d s, %d parts skipped%s\n' "$word" "$name" $((SECONDS - start)) "$skipped" \
    "$([ "$code" -eq 0 ] || echo ", exit code $code, see $work/run/$name.out")"
}

# flush2 must follow flush1: the pair is one job.
run_job() {
  local name
  for name in ${1//,/ }; do run_one "$name"; done
}

configure
cc -shared -fPIC -o "$work/libh5testshim.so" "$here/h5testshim.c"
[ -n "$programs" ] || programs=$(all_programs)
# shellcheck disable=SC2086
cmake --build "$work/b" -j "$jobs" --target $programs > "$work/build.log" 2>&1 \
  || { tail -n 20 "$work/build.log" >&2; die "cannot build HDF5's tests"; }

rm -rf "$work/run"
mkdir -p "$work/run"
export -f run_one run_job
export work source plugin driver
# shellcheck disable=SC2086
echo $programs | sed 's/\bflush1 flush2\b/flush1,flush2/' | tr ' ' '\n' \
  | xargs -P "$jobs" -I{} bash -c 'run_job {}' | tee "$work/results.txt"
failed=$(grep -c '^FAIL' "$work/results.txt" || true)
echo "$(grep -c '^pass' "$work/results.txt" || true) passed, $failed failed"
[ "$failed" -eq 0 ]
