#!/usr/bin/env bash
# Programs on four ranks of this machine write checkpoints, end, and go on from the newest one when they are
# started again. CTest sets MPIEXEC and what the MPI needs besides.
#
#   go_on.sh NATIVE_APP HEAT_NATIVE
set -u
native_app=$1 heat_native=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

begin() { # name: a prefix directory, a cache and a job of its own
  export SCR_PREFIX=$folder/$1/prefix SCR_CNTL_BASE=$folder/$1/cache SCR_CACHE_BASE=$folder/$1/cache SCR_JOB_ID=$1
  mkdir -p "$SCR_PREFIX" "$SCR_CACHE_BASE"
  cd "$SCR_PREFIX" || exit 2
}

expect() { # pattern program...: it succeeds and says this
  local pattern=$1 status
  shift
  timeout -k 5 60 "$MPIEXEC" -n 4 "$@" >"$folder/out" 2>&1
  status=$?
  if ((status == 0)) && grep -qE -- "$pattern" "$folder/out"; then return; fi
  cat "$folder/out"
  echo "FAIL: ${*##*/}: exit status $status, expected a line like '$pattern'"
  failed=1
}

for flush in 0 1; do # from the cache, and from the prefix directory when the cache is gone
  export SCR_FLUSH=$flush
  begin "app$flush"
  expect '^FRESH' "$native_app" 3 2 20000
  ((flush)) && rm -rf "${SCR_CACHE_BASE:?}"/*
  expect '^RESTARTED 3' "$native_app" 5 2 20000
  begin "heat$flush"
  expect '^done: 40 steps' "$heat_native" 40 10 heat.pgm
  ((flush)) && rm -rf "${SCR_CACHE_BASE:?}"/*
  expect "^restarted from checkpoint 'heat.40'" "$heat_native" 60 10 heat.pgm
done
exit $failed
