#!/usr/bin/env bash
# What a program sees of the HDF5 driver when something is wrong: an HDF5 error and one clear line, never a
# crash, and what was complete before is untouched.
#   vfd_error_test.sh BUILD_DIR
set -uo pipefail
# What it mounts is for itself: other tests look at the machine's mounts.
if [ -z "${own_mounts:-}" ] && unshare --mount true 2> /dev/null; then
  own_mounts=1 exec unshare --mount --propagation private bash "$0" "$@"
fi
source "$(dirname "${BASH_SOURCE[0]}")/vfd_lib.sh"
export -f in_job with_driver make_file
export build work prefix

# The command fails, by itself and not by a signal, and says this in one line: fails_with TEXT COMMAND...
fails_with() {
  local text=$1 code=0
  shift
  "$@" > "$work/out" 2>&1 || code=$?
  cat "$work/out"
  [ "$code" -gt 0 ] && [ "$code" -lt 128 ] && grep -qE "$text" "$work/out"
}
# The line of h5scr comes once, however many files there are.
says_once() { [ "$(grep -cE "$1" "$work/out")" = 1 ] || { cat "$work/out"; false; }; }
numbers_from() { # first file [command...]
  local dump
  dump=$("${@:3}" h5dump -d "/data/numbers[0]" -O /dev/null -o /dev/stdout "$2") && [ "$(echo "$dump" | grep -o '[0-9]*$' | tail -n 1)" = "$1" ]
}


echo "-- the plug-in is missing"
check "HDF5 says so" fails_with "can.t find plugin" \
  env HDF5_DRIVER=scr HDF5_PLUGIN_PATH="$work/none" h5mkgrp -p missing.h5 a

echo "-- a configuration that does not parse"
check "by the environment" fails_with "the driver configuration 'SCR_FLUSH=often'.*SCR_FLUSH.*often" \
  env HDF5_DRIVER_CONFIG=SCR_FLUSH=often bash -c 'make_file config.h5 1 in_job'
check "no file came of it" test ! -e config.h5
check "an unknown name, with the nearest one" fails_with "SCR_FLUSH_ASYNK.*SCR_FLUSH_ASYNC" \
  env HDF5_DRIVER_CONFIG=SCR_FLUSH_ASYNK=1 bash -c 'make_file config.h5 1 in_job'
check "a rule" fails_with "ROUTE.*TYPE" \
  env HDF5_DRIVER_CONFIG="ROUTE=*.h5 TYPE=SOMETIMES" bash -c 'make_file config.h5 1 in_job'

echo "-- the cache is full in the middle of a write"
check "a good file first" make_file full.h5 1 in_job
check "it is flushed" is_real full.h5
check "the file goes on at its name" env SCR_FAULT="op=write,path=*full.h5,n=2,repeat=all,action=enospc" \
  bash -c 'make_file full.h5 3 in_job > "$work/out" 2>&1'
check "with one line" says_once "there is no room in the cache for '.*full.h5': it is written at its name"
check "and is whole" numbers_from 3 full.h5
check "a good file again" make_file full.h5 1 in_job

echo "-- the cache and the prefix directory are full in the middle of a write"
check "the write fails" fails_with "No space left on device.*driver scr" \
  env SCR_FAULT="op=write,path=*full.h5*,n=2,repeat=all,action=enospc" bash -c 'make_file full.h5 5 in_job'
check "the file is dropped, with one line" says_once "full.h5' is dropped, for it could not be written: .*No space left"
check "the good file stays" numbers_from 1 full.h5
check "and the driver gives it" numbers_from 1 full.h5 in_job
check "nothing of the other was flushed" bash -c '! scr_index --list | grep full@'
check "a new name" fails_with "No space left on device.*driver scr" \
  env SCR_FAULT="op=write,path=*new.h5*,n=2,repeat=all,action=enospc" bash -c 'make_file new.h5 5 in_job'
check "no file of it" test ! -e new.h5
check "nothing is left in the cache" bash -c '! find "$work/cache" -name "new.h5" | grep .'
check "the next write works" make_file new.h5 7 in_job
check "and is whole" numbers_from 7 new.h5

echo "-- a cache that is really full"
mkdir "$work/small"
if mount -t tmpfs -o size=32k tmpfs "$work/small" 2> /dev/null; then
  trap 'umount "$work/small"; rm -rf "$work"' EXIT
  check "the file is written at its name" env job=small cache_base="$work/small" bash -c 'make_file full.h5 5 in_job'
  check "and is whole" numbers_from 5 full.h5
else
  echo "needs the right to mount" && failed=$((failed + 1))
fi

echo "-- a write fails on one of two ranks, and the program goes on"
run_ranks() { # first file...
  env job=ranks bash -c 'in_job mpirun --oversubscribe -n 2 env LD_PRELOAD="$build/lib/libscr_mpiio.so" \
    "$build/tests/write_numbers_mpi" "$1" 1000 "${@:2}"' _ "$@"
}
check "a good checkpoint first" run_ranks 1 ranks
check "it is flushed" bash -c 'scr_index --list | grep -q ranks && h5dump -H ranks.0 && h5dump -H ranks.1'
export SCR_FAULT="op=write,path=*bad.1*,repeat=all,action=enospc,rank=1"
check "the program gets the error" fails_with "No space left on device.*driver scr" run_ranks 5 ranks bad next
unset SCR_FAULT
check "the file of that rank is dropped" says_once "bad.1' is dropped, for it could not be written"
check "the file of the other rank is at its name" numbers_from 5 bad.0
check "they are no dataset" bash -c '! scr_index --list | grep bad'
check "those before are" numbers_from 5 ranks.1
check "those after too" bash -c 'scr_index --list | grep -q next && h5dump -H next.0 && h5dump -H next.1'

echo "-- a prefix directory that cannot be written"
mkdir "$work/locked"
check "the program gets the error of a direct write" fails_with "h5scr|Permission denied|Read-only" \
  env SCR_FAULT="op=open|mkdir|rename,path=*locked*,repeat=all,action=eacces" \
  bash -c 'cd "$work/locked" && SCR_PREFIX=$work/locked SCR_JOB_ID=other SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=$work/cache make_file locked.h5 1 with_driver'
check "the line says which directory" says_once "WARNING.*locked/.scr.: Permission denied; files are opened as without h5scr"
finish
