#!/usr/bin/env bash
# The HDF5 driver "scr" in programs of different kinds, each a process of its own.
#   vfd_process_test.sh PLUGIN PROGRAMS_DIR HDF5_ROOT
# PLUGIN is libh5fd_scr.so, PROGRAMS_DIR has local_hdf5, other_hdf5 and vfd_user.
set -euo pipefail
plugin=$(realpath "$1") programs=$(realpath "$2") hdf5=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
passed=0 failed=0
missing="h5scr: cannot open 'missing.h5': No such file or directory (errno = 2, driver scr)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset HDF5_DRIVER HDF5_DRIVER_CONFIG HDF5_PLUGIN_PATH HDF5_USE_FILE_LOCKING
with_driver() { env HDF5_DRIVER=scr HDF5_PLUGIN_PATH="$(dirname "$plugin")" "$@"; }

# check NAME COMMAND...: the command succeeds
check() {
  local name=$1
  shift
  if "$@" > log 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: $name"; cat log; fi
}

brings_no_hdf5_or_mpi() { ! readelf -d "$plugin" | grep -E 'NEEDED.*lib(hdf5|mpi|open-rte)'; }
check "the plug-in needs no libhdf5 and no MPI" brings_no_hdf5_or_mpi

stays_loaded() { readelf -d "$plugin" | grep -q NODELETE; }
check "the plug-in stays loaded" stays_loaded

works_with_a_private_library() {
  [ "$(with_driver "$programs/local_hdf5" . "$hdf5/lib/libhdf5.so")" = "$missing" ] && [ -s 1.h5 ]
}
check "a libhdf5 that is private to its loader" works_with_a_private_library

works_with_two_libraries() {
  mkdir -p second && cp -L "$hdf5/lib/libhdf5.so" second/libhdf5.so
  [ "$(with_driver "$programs/local_hdf5" . "$hdf5/lib/libhdf5.so" "$work/second/libhdf5.so")" = "$missing"$'\n'"$missing" ]
}
check "two copies of libhdf5 in one process" works_with_two_libraries

refuses_another_series() {
  "$programs/other_hdf5" "$plugin" > out 2> err
  [ "$(cat out)" = $'refused\nrefused' ] || { cat out; return 1; }
  cat err
  [ "$(wc -l < err)" = 1 ] && grep -q "refuses to work with HDF5 1.99.3" err
}
check "another series of HDF5 is refused, in one line" refuses_another_series

check "a C program linked with the plug-in" "$programs/vfd_user" linked.h5
check "its file is HDF5" "$hdf5/bin/h5dump" linked.h5

tools_work() {
  with_driver "$hdf5/bin/h5mkgrp" -p tools.h5 a b/c &&
    with_driver "$hdf5/bin/h5dump" tools.h5 > with && "$hdf5/bin/h5dump" tools.h5 > without && cmp with without &&
    with_driver "$hdf5/bin/h5repack" tools.h5 repacked.h5 && "$hdf5/bin/h5diff" tools.h5 repacked.h5 &&
    HDF5_PLUGIN_PATH=$(dirname "$plugin") "$hdf5/bin/h5dump" --vfd-name scr tools.h5 > named && cmp named without
}
check "HDF5's commands" tools_work

reports_a_full_disk() {
  ! SCR_FAULT="op=write,action=enospc,repeat=all" with_driver "$programs/local_hdf5" . "$hdf5/lib/libhdf5.so" &&
    grep -q "No space left on device, [0-9]* bytes at offset [0-9]* (errno = 28, driver scr)" log
}
check "a full disk is reported with the place" reports_a_full_disk

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
