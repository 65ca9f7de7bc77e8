#!/usr/bin/env bash
# Runs HDF5's own test programs with the driver "scr": those that HDF5 runs with each of its drivers.
#   tests/hdf5/run_hdf5_vfd_tests.sh [--quick | --only "NAME..."] [--baseline] [--jobs N] BUILD_DIR
# The programs come from the source package that h5scr's HDF5 is built from (BUILD_DIR/deps/src/hdf5).
# They are built once into BUILD_DIR/hdf5-tests (some minutes), and run with BUILD_DIR/plugin/libh5fd_scr.so;
# the output of each stays in BUILD_DIR/hdf5-tests/run.
#   --quick      the programs that take seconds; under a minute in all
#   --only       these programs
#   --baseline   with HDF5's own driver sec2 in place of ours, to compare
# Prints a line for each program. "skip" is one that leaves itself out; "parts skipped" counts what others
# leave out, mostly filters that this HDF5 does not have. Exits 1 if one fails.
set -euo pipefail

quick="app_ref big btree2 cache_logging cork dangle direct_chunk dtypes efc enc_dec_plist enum event_set
  evict_on_close extend external farray file_image flush1 flush2 freespace getname hyperslab istore lheap links mf
  mount mtime objcopy_ref ohdr page_buffer select_io_dset stab swmr twriteorder unlink unregister vol"

die() { echo "hdf5-tests: $*" >&2; exit 1; }

parse() {
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
  source=$build/deps/src/hdf5 work=$build/hdf5-tests plugin=$build/plugin
  [ -f "$source/test/CMakeVFDTests.cmake" ] || die "no HDF5 source in $source: run 'make deps' without HDF5_ROOT"
  [ -f "$plugin/libh5fd_scr.so" ] || die "no driver in $plugin: run 'make'"
}

configure() {
  mkdir -p "$work"
  [ -f "$work/b/build.ninja" ] && return
  cmake -S "$source" -B "$work/b" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DBUILD_STATIC_LIBS=OFF -DHDF5_ENABLE_PARALLEL=ON -DHDF5_BUILD_CPP_LIB=OFF -DHDF5_BUILD_FORTRAN=OFF \
    -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_HL_LIB=OFF -DBUILD_TESTING=ON \
    -DHDF5_TEST_VFD=ON -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_SZIP_SUPPORT=OFF \
    > "$work/configure.log" 2>&1 || { tail -n 20 "$work/configure.log" >&2; die "cannot configure HDF5's tests"; }
}

# HDF5's build files say which programs belong to the set.
all_programs() { grep -o 'add_test(VFD-sec2-[a-z0-9_]*' "$work/b/test/CTestTestfile.cmake" | sed 's/.*VFD-sec2-//' | sort -u; }

compile() {
  cc -shared -fPIC -o "$work/libh5testshim.so" "$here/h5testshim.c"
  # shellcheck disable=SC2086
  cmake --build "$work/b" -j "$jobs" --target $programs > "$work/build.log" 2>&1 \
    || { tail -n 20 "$work/build.log" >&2; die "cannot build HDF5's tests"; }
}

# Runs one program, with a folder of its own, and prints its line.
# shellcheck disable=SC2317
run_one() {
  local name=$1 folder=$work/run/${1/flush2/flush1} start=$SECONDS code=0 skipped word=pass note=""
  local set=(HDF5_DRIVER="$driver" srcdir="$source/test" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
  [ "$driver" = sec2 ] || set+=(HDF5_PLUGIN_PATH="$plugin" LD_PRELOAD="$work/libh5testshim.so")
  # This one tests a driver that stacks on sec2 and nothing else.
  [ "$name" != onion ] || set+=(H5TESTSHIM_DRIVER="$driver")
  mkdir -p "$folder"
  (cd "$folder" && env "${set[@]}" timeout -k 10 1800 "$work/b/bin/$name" > "$work/run/$name.out" 2>&1) || code=$?
  skipped=$(grep -cE -- '-SKIP-|^ *SKIPPED' "$work/run/$name.out" || true)
  [ "$skipped" -eq 0 ] || grep -q PASSED "$work/run/$name.out" || word=skip
  [ "$code" -eq 0 ] || { word=FAIL; note=", exit code $code, see $work/run/$name.out"; }
  printf '%s  %-30s %4d s, %d parts skipped%s\n' "$word" "$name" $((SECONDS - start)) "$skipped" "$note"
}

# shellcheck disable=SC2317
run_job() {
  local name
  for name in ${1//,/ }; do run_one "$name"; done
}

# flush2 reads the files of flush1, so the two are one job and share a folder.
run_all() {
  rm -rf "$work/run"
  mkdir -p "$work/run"
  export -f run_one run_job
  export work source plugin driver
  # shellcheck disable=SC2086
  echo $programs | sed 's/\bflush1 flush2\b/flush1,flush2/' | tr ' ' '\n' \
    | xargs -P "$jobs" -I{} bash -c 'run_job {}' | tee "$work/results.txt"
}

count() { grep -c "^$1" "$work/results.txt" || true; }

main() {
  parse "$@"
  configure
  [ -n "$programs" ] || programs=$(all_programs)
  compile
  run_all
  [ "$(count skip)" -eq 0 ] || echo "$(count skip) left themselves out"
  echo "$(count pass) passed, $(count FAIL) failed"
  [ "$(count FAIL)" -eq 0 ]
}

# In one line: bash reads a script as it goes, and this one may be edited while it runs.
main "$@"; exit
