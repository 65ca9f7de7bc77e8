#!/usr/bin/env bash
# HDF5's commands on files that h5scr has put elsewhere: in the cache, flushed, in a container.
#   vfd_tools_test.sh BUILD_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/vfd_lib.sh"
export -f in_job with_driver
export build work prefix

make_file "$work/plain.h5" 1 env
h5dump "$work/plain.h5" | sed 1d > "$work/plain.dump" # the first line has the name
h5stat "$work/plain.h5" | sed 1d > "$work/plain.stat"

dump_is_right() { # command... file
  "${@:1:$#-1}" h5dump "${@: -1}" | sed 1d > "$work/dump" && cmp "$work/dump" "$work/plain.dump"
}

# All commands on one file: use_tools FILE [COMMAND...]
use_tools() {
  local file=$1
  shift
  check "h5dump $file" dump_is_right "$@" "$file"
  check "h5ls $file" bash -c '"$@" | grep -q "/data/numbers *Dataset {10000}"' _ "$@" h5ls -r "$file"
  check "h5diff $file" "$@" h5diff "$file" "$work/plain.h5"
  check "h5stat $file" bash -c '"${@:2}" | sed 1d | cmp - "$1"' _ "$work/plain.stat" "$@" h5stat "$file"
  check "h5repack $file" bash -c '"${@:3}" h5repack -f GZIP=1 "$1" "$2" && h5diff "$2" "${2%/*}/plain.h5"' _ \
    "$file" "$work/repacked.h5" "$@"
  rm -f "$work/copied.h5"
  check "h5copy $file" bash -c '"${@:3}" h5copy -i "$1" -o "$2" -s data -d data && h5diff "$2" "${2%/*}/plain.h5"' _ \
    "$file" "$work/copied.h5" "$@"
}

has_later() { in_job h5ls cached.h5 | grep later; }

echo "-- in the cache, not flushed"
export SCR_FLUSH=0
check "write to the cache" make_file cached.h5 1 in_job
check "only a marker is at the name" is_marker cached.h5
use_tools cached.h5 in_job
check "a command changes a file of the cache" in_job h5mkgrp cached.h5 later
check "and it is still only there" is_marker cached.h5
check "the change is there" has_later
unset SCR_FLUSH

echo "-- flushed"
check "write" make_file flushed.h5 1 in_job
check "the file is at its name" is_real flushed.h5
use_tools flushed.h5 in_job
use_tools flushed.h5 with_driver

echo "-- in a container"
export SCR_USE_CONTAINERS=1
check "write" make_file contained.h5 1 in_job
unset SCR_USE_CONTAINERS
check "only a marker is at the name" is_marker contained.h5
use_tools contained.h5 in_job

echo "-- in a container, by a command without settings, in another folder, after the job"
rm -rf "$work/cache"
mkdir "$work/elsewhere" "$work/cache"
cd "$work/elsewhere" || exit 1
use_tools "$prefix/contained.h5" with_driver
use_tools ../prefix/contained.h5 with_driver
rm "$prefix/contained.h5"
check "h5dump without the marker" dump_is_right with_driver "$prefix/contained.h5"
finish
