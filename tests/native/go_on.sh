#!/usr/bin/env bash
# Programs on four ranks of this machine write checkpoints, end, and go on from the newest one when they are
# started again. CTest sets MPIEXEC and what the MPI needs besides.
#
#   go_on.sh NATIVE_APP HEAT_NATIVE PI_NATIVE [WAVE_NATIVE]
set -u
native_app=$1 heat_native=$2 pi_native=$3 wave_native=${4:-}
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

# What a program comes to when it is stopped and goes on is what it comes to in one go.
result() { grep -E '^(pi is|step)' "$folder/out"; }
same_result() { # name program end first...: `first` steps, then to the end; and in one go
  local name=$1 program=$2 end=$3 first=$4 parts
  shift 4
  begin "$name"
  expect . "$program" "$first" "$@"
  expect '^restarted' "$program" "$end" "$@"
  parts=$(result)
  begin "$name.whole"
  expect . "$program" "$end" "$@"
  [[ -n $parts && $parts == "$(result)" ]] && return
  echo "FAIL: ${program##*/} comes to '$parts' in parts, and to '$(result)' in one go"
  failed=1
}
export SCR_FLUSH=0 SCR_CHECKPOINT_INTERVAL=1
same_result pi "$pi_native" 6 3
[[ -z $wave_native ]] || same_result wave "$wave_native" 2000 1000 500
exit $failed
