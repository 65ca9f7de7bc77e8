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
# The one with a full disk leaves a folder where it could not begin.
export SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=$work/cache
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

# Every line is JSON with all fields, and the writes to one file cover it from the first byte to the last.
trace_is_whole() {
  SCR_ENABLE=${1:-1} SCR_FLUSH=0 SCR_VFD_TRACE=$work/trace-%p.jsonl \
    with_driver "$programs/write_numbers" 1 1000 one.h5 two.h5 &&
    python3 - "$work"/trace-*.jsonl <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
keys = ["call", "file", "offset", "length", "start", "seconds", "ok"]
for line in lines:
    expected = keys[:-1] + ["flags", "ok"] if line["call"] == "open" else keys
    assert len(sys.argv) == 2 and list(line) == expected, line
opens = [(line["flags"], line["ok"]) for line in lines if line["call"] == "open"]
assert ("RDWR|CREAT|TRUNC", True) in opens and all(ok for flags, ok in opens if "CREAT" in flags), opens
assert all(line["ok"] for line in lines if line["call"] != "open"), lines
for name in ("one.h5", "two.h5"):
    calls = [line for line in lines if line["file"].endswith(name)]
    end = [line["offset"] for line in calls if line["call"] == "truncate"][-1]
    writes = [line for line in calls if line["call"] == "write"]
    assert min(w["offset"] for w in writes) == 0 and max(w["offset"] + w["length"] for w in writes) == end, calls
    assert sum(w["length"] == 4000 for w in writes) == 1 and calls[-1]["call"] == "close", calls
assert all(a["start"] <= b["start"] for a, b in zip(lines, lines[1:]) if a["call"] == b["call"])
assert all(line["seconds"] >= 0 for line in lines)
PYTHON
}
check "a trace of all calls" trace_is_whole
rm -f trace-*
check "also when h5scr is switched off" trace_is_whole 0
names_the_process() { [ "$(SCR_ENABLE=0 SCR_VFD_TRACE=$work/t with_driver bash -c 'echo $$; exec "$0" 1 1 x.h5' "$programs/write_numbers")" = "$(ls t.* | sed 's/.*\.//')" ]; }
check "one file for each process" names_the_process
says_why_not() { SCR_ENABLE=0 SCR_VFD_TRACE=$work/none/t with_driver "$programs/write_numbers" 1 1 x.h5 && grep -q "no trace.*none/t.*No such file" log; }
check "a trace that cannot be written is said, and no error" says_why_not

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
