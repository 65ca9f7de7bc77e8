#!/usr/bin/env bash
# Runs HDF5's own test programs with the driver "scr": those that HDF5 runs with each of its drivers.
#   tests/hdf5/run_hdf5_vfd_tests.sh [--quick | --only "NAME..."] [--set parallel [--ranks N]] [--mode MODE]
#                                    [--jobs N] BUILD_DIR
# The programs come from the source package that h5scr's HDF5 is built from (BUILD_DIR/deps/src/hdf5); they are
# built once, in HDF5's own build folder, and run with BUILD_DIR/plugin/libh5fd_scr.so.
#   --quick      the programs that take seconds; under a minute in all
#   --only       these programs
#   --set        parallel: HDF5's parallel programs, on N ranks (2), through MPI-IO and libscr_mpiio: mode baseline is
#                without h5scr, and routed with it. They run one after the other.
#   --mode       off       h5scr is switched off (SCR_ENABLE=0): the driver alone (this is the default)
#                unrouted  h5scr is at work, with a rule that matches nothing
#                routed    every file goes to the cache
#                baseline  HDF5's own driver sec2 in place of ours, to compare
#                compare   baseline, then what passed there again, routed; what fails in the baseline does not count
# Prints a line for each program. "skip" is one that leaves itself out; "parts skipped" counts what others
# leave out, mostly filters that this HDF5 does not have. Programs that cannot pass in a mode are listed below
# with the reason. The output of each stays in BUILD_DIR/hdf5-tests/MODE. Exits 1 if one fails. H5SCR_TEST_LIMIT: seconds
# that one may take.
set -euo pipefail

quick="app_ref big cache_logging chunk_info cork cross_read dangle direct_chunk enc_dec_plist enum event_set
  evict_on_close extend external file_image flush1 flush2 freespace getname hyperslab lheap mf mount mtime objcopy_ref
  ohdr page_buffer select_io_dset stab swmr thread_id twriteorder unlink unregister vol"

parallel="testphdf5 t_mpi t_pread t_shapesame t_cache t_bigio t_filters_parallel t_select_io_dset t_vfd t_pmulti_dset"

die() { echo "hdf5-tests: $*" >&2; exit 1; }

parse() {
  programs="" mode=off jobs=$(nproc) build="" set="" ranks=2
  while [ $# -gt 0 ]; do
    case $1 in
      --quick) programs=$quick ;;
      --only) programs=$2; shift ;;
      --mode) mode=$2; shift ;;
      --jobs) jobs=$2; shift ;;
      --set) [ "$2" = parallel ] || die "unknown set '$2'"; set=$2; shift ;;
      --ranks) ranks=$2; shift ;;
      -*) die "unknown option $1; see the head of $0" ;;
      *) build=$1 ;;
    esac
    shift
  done
  case $mode in off | unrouted | routed | baseline | compare) ;; *) die "unknown mode '$mode'; see the head of $0" ;; esac
  [ -n "$build" ] || die "give the build directory of h5scr"
  build=$(cd "$build" && pwd)
  here=$(cd "$(dirname "$0")" && pwd)
  source=$build/deps/src/hdf5 tree=$build/deps/hdf5-build work=$build/hdf5-tests plugin=$build/plugin
  [ -f "$source/test/CMakeVFDTests.cmake" ] || die "no HDF5 source in $source: run 'make deps' without HDF5_ROOT"
  [ -f "$plugin/libh5fd_scr.so" ] || die "no driver in $plugin: run 'make'"
}

# HDF5's own build of `make deps`, with its tests: the library is compiled already.
configure() {
  mkdir -p "$work"
  grep -q 'BUILD_TESTING:BOOL=ON' "$tree/CMakeCache.txt" && [ -f "$tree/test/CTestTestfile.cmake" ] && return
  cmake -S "$source" -B "$tree" -DBUILD_TESTING=ON -DHDF5_TEST_VFD=ON > "$work/configure.log" 2>&1 \
    || { tail -n 20 "$work/configure.log" >&2; die "cannot configure HDF5's tests"; }
}

# HDF5's build files say which programs belong to the set.
all_programs() { grep -o 'add_test(VFD-sec2-[a-z0-9_]*' "$tree/test/CTestTestfile.cmake" | sed 's/.*VFD-sec2-//' | sort -u; }

compile() {
  cc -shared -fPIC -o "$work/libh5testshim.so" "$here/h5testshim.c" -ldl
  # shellcheck disable=SC2086
  cmake --build "$tree" -j "$(nproc)" --target $programs > "$work/build.log" 2>&1 \
    || { tail -n 20 "$work/build.log" >&2; die "cannot build HDF5's tests"; }
}

# Files of a program that cannot be in the cache, as rules, and why.
# shellcheck disable=SC2317
exempt() { # name
  case $1 in
    dsets)
      echo "simple.h5: the program looks for the data with lseek() and read()"
      echo "dset_offset.h5: the same"
      ;;
    t_pread) echo "*t_pread_*: the program writes to its files with open() and write(), which may find a marker there" ;;
    chunk_info) echo "file_with*_userblock.h5: the program reads chunks with read() at the address that HDF5 names" ;;
  esac
}

# The environment of a program in the present mode, one setting a line.
# shellcheck disable=SC2317
environment() { # name folder
  printf '%s\n' srcdir="$source/test" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  if [ "$mode" = baseline ]; then
    echo HDF5_DRIVER=sec2
    return
  fi
  printf '%s\n' HDF5_DRIVER=scr HDF5_PLUGIN_PATH="$plugin" \
    LD_PRELOAD="$work/libh5testshim.so $build/lib/libscr_mpiio.so" SCR_PREFIX="$2" SCR_JOB_ID="$1" \
    SCR_CNTL_BASE="$files/cache" SCR_CACHE_BASE="$files/cache"
  # What works with HDF5's default driver alone is tested as long as files are at their names; but onion tests a
  # driver that stacks on sec2 and nothing else. The two programs of the metadata cache look at no name at all.
  case $mode-$1 in
    *-onion) echo H5TESTSHIM_DRIVER=scr ;;
    routed-cache | routed-cache_tagging) ;;
    routed-*) echo H5TESTSHIM_DRIVER=scr ;;
  esac
  case $mode in
    off) echo SCR_ENABLE=0 ;;
    unrouted) echo HDF5_DRIVER_CONFIG="ROUTE=/no/such/file TYPE=CKPT" ;;
    routed)
      local line rules=""
      while read -r line; do rules+="ROUTE=${line%%:*} TYPE=BYPASS; "; done < <(exempt "$1")
      [ -z "$rules" ] || echo HDF5_DRIVER_CONFIG="${rules}ROUTE=** TYPE=OUTPUT"
      ;;
  esac
}

# The same for a parallel program.
# shellcheck disable=SC2317
parallel_environment() { # name folder
  local line name=$1 folder=$2
  printf '%s\n' srcdir="$source/testpar" HDF5_PARAPREFIX="$folder"
  [ "$mode" != baseline ] || return 0
  { while read -r line; do echo "ROUTE=${line%%:*} TYPE=BYPASS"; done < <(exempt "$name")
    echo "ROUTE=** TYPE=OUTPUT"; } > "$files/$name.rules"
  echo SCR_CONF_FILE="$files/$name.rules"
  printf '%s\n' LD_PRELOAD="$build/lib/libscr_mpiio.so" SCR_PREFIX="$folder" SCR_CNTL_BASE="$files/cache" \
    SCR_CACHE_BASE="$files/cache"
  case $name in  # these open files of mpio with HDF5's default driver, too
    testphdf5 | t_filters_parallel) printf '%s\n' HDF5_DRIVER=scr HDF5_PLUGIN_PATH="$plugin" ;;
  esac
  case $mode in
    off) echo SCR_ENABLE=0 ;;
    unrouted) echo SCR_PREFIX="$files/nothing" ;;
  esac
}

# What runs a program: the launcher must not be under the preload itself.
# shellcheck disable=SC2317
start() { # name folder
  local settings
  if [ -z "$set" ]; then
    mapfile -t settings < <(environment "$1" "$2")
    env "${settings[@]}" "$tree/bin/$1"
  else
    mapfile -t settings < <(parallel_environment "$1" "$2")
    local processes=$ranks
    [ "$1" != t_cache ] || [ "$ranks" -gt 3 ] || processes=3  # with fewer it ends without a test
    OMPI_MCA_mpi_yield_when_idle=1 mpirun --allow-run-as-root --oversubscribe -n "$processes" \
      env "${settings[@]}" "$tree/bin/$1"
  fi
}

# Programs without a file that our driver could route, and why.
# shellcheck disable=SC2317
routes_nothing() { # name
  case $1 in
    big | swmr) echo "leaves itself out with a driver that is not HDF5's own, or has no SWMR" ;;
    cross_read) echo "reads files of HDF5's sources, outside of the prefix directory" ;;
    bittests | enc_dec_plist | event_set | hyperslab | thread_id | timer | twriteorder) echo "has no HDF5 file" ;;
    ttsafe) echo "has HDF5 files only where HDF5 is thread-safe" ;;
    enc_dec_plist_cross_platform) echo "reads property lists of HDF5's sources" ;;
    file_image) echo "names its drivers itself" ;;
    flush2) echo "only reads" ;;
    *) return 1 ;;
  esac
}

# What h5scr says of a program at its end: that it routed all files. A layer that did nothing would pass every test. Of a
# parallel program with exempt files it may say nothing, for those are all that it has; files that are flushed again and
# again while they are open are moved to their names, after they were routed. Serial programs also open files elsewhere
# and by other drivers, so some routed files are enough; flush1 ends without closing them, and is told at the move.
# shellcheck disable=SC2317
routed_well() { # name
  local end
  if [ -z "$set" ]; then
    grep -qaE '\b[1-9][0-9]* files routed|is kept open and flushed: it is written at its name from now on' "$run/$1.out" \
      || routes_nothing "$1" > /dev/null
    return
  fi
  [ -z "$(exempt "$1")" ] || return 0
  end=$(grep -aE '[0-9]+ files routed' "$run/$1.out" | tail -n 1 | sed 's/[0-9]* moved while open//')
  # It also opens images of files, with the driver core.
  [ "$1" != testphdf5 ] || end=$(sed "s/[0-9]* by another driver of HDF5//" <<< "$end")
  grep -qE '\b[1-9][0-9]* files routed' <<< "$end" && ! grep -q 'not routed: .*[0-9]' <<< "$end"
}

# Runs one program, with a folder of its own, and prints its line.
# shellcheck disable=SC2317
run_one() {
  local name=$1 start=$SECONDS code=0 skipped word=pass note="" limit=${H5SCR_TEST_LIMIT:-1800}
  case $name in testphdf5 | t_mpi | t_bigio) files=$large ;; esac
  local folder=$files/${name/flush2/flush1}
  mkdir -p "$folder" "$files/cache" "$files/nothing"
  (cd "$folder" && timeout -k 10 "$limit" bash -c 'start "$@"' start "$name" "$folder" > "$run/$name.out" 2>&1) || code=$?
  skipped=$(grep -cE -- '-SKIP-|^[ -]*SKIPPED' "$run/$name.out" || true)
  [ "$skipped" -eq 0 ] || grep -qi passed "$run/$name.out" || word=skip
  [ "$mode" != routed ] || note=$(exempt "$name" | sed 's/^/; at its name /' | tr -d '\n')
  if [ "$mode$word" = routedpass ] && [ "$code" -eq 0 ]; then
    note+=$(routes_nothing "$name" | sed 's/^/; nothing to route: it /')
    routed_well "$name" || word=FAIL note=", files were not routed, see $run/$name.out"
  fi
  [ "$code" -eq 0 ] || { word=FAIL; note=", exit code $code, see $run/$name.out"; }
  printf '%s  %-30s %4d s, %d parts skipped%s\n' "$word" "$name" $((SECONDS - start)) "$skipped" "$note"
}

# shellcheck disable=SC2317
run_job() {
  local name
  for name in ${1//,/ }; do run_one "$name"; done
}

# flush2 reads the files of flush1, so the two are one job and share a folder.
run_all() {
  run=$work/$mode${set:+-$set}
  rm -rf "$run"
  mkdir -p "$run"
  # The programs write thousands of small files, which h5scr syncs one by one when it flushes them; a few parallel ones
  # write files of many GB.
  files=$(mktemp -d "/dev/shm/hdf5-tests.XXXXXX") large=$(mktemp -d "$work/hdf5-tests.XXXXXX")
  trap 'rm -rf "$files" "$large"' EXIT
  export -f run_one run_job routed_well routes_nothing environment parallel_environment start exempt
  export set ranks build work tree source plugin mode run files large
  # shellcheck disable=SC2086
  echo $programs | sed 's/\bflush1 flush2\b/flush1,flush2/' | tr ' ' '\n' \
    | xargs -P "$jobs" -I{} bash -c 'run_job {}' | tee "$run/results.txt"
}

count() { grep -c "^$1" "$run/results.txt" || true; }

run_mode() { # mode
  mode=$1
  run_all
  [ "$(count skip)" -eq 0 ] || echo "$(count skip) left themselves out"
  echo "$(count pass) passed, $(count FAIL) failed"
}

main() {
  parse "$@"
  configure
  [ -z "$set" ] || jobs=1
  [ -n "$programs" ] || programs=${set:+$parallel}
  [ -n "$programs" ] || programs=$(all_programs)
  compile
  if [ "$mode" = compare ]; then
    echo "without h5scr:"
    run_mode baseline
    programs=$(awk '$1 == "pass" {print $2}' "$run/results.txt")
    [ -n "$programs" ] || die "nothing passes without h5scr"
    rm -rf "$files" "$large"
    echo "what passed, with every file routed:"
    mode=routed
  fi
  run_mode "$mode"
  [ "$(count FAIL)" -eq 0 ] || return 1
  local results
  results=$(($(count pass) + $(count skip)))
  [ "$results" -gt 0 ] && [ "$results" -eq "$(wc -w <<< "$programs")" ] \
    || die "$results results of $(wc -w <<< "$programs") programs"
}

# In one line: bash reads a script as it goes, and this one may be edited while it runs.
main "$@"; exit
