#!/usr/bin/env bash
# Runs a program twice on this machine, with the arguments "write" and "restart", in a prefix directory and a
# cache of its own. Patterns (extended regular expressions) given with --expect must be in what the first run
# says. CTest sets MPIEXEC and what the MPI needs besides.
#
#   write_and_restart.sh [--ranks N] [--expect PATTERN]... program...
set -u
ranks=2 expected=()
while [[ ${1:-} == --* ]]; do
  case $1 in
    --ranks) ranks=$2 ;;
    --expect) expected+=("$2") ;;
    *) echo "what is $1?" >&2 && exit 2 ;;
  esac
  shift 2
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/prefix" "$folder/cache"
cd "$folder/prefix" || exit 2
export SCR_PREFIX=$folder/prefix SCR_CNTL_BASE=$folder/cache SCR_CACHE_BASE=$folder/cache SCR_JOB_ID=1
export SCR_FLUSH=0 SCR_FETCH=0 # the cache alone
failed=0
for mode in write restart; do
  timeout -k 5 100 "$MPIEXEC" -n "$ranks" "$@" "$mode" >"$folder/$mode" 2>&1
  status=$?
  echo "--- $mode: exit status $status"
  cat "$folder/$mode"
  ((status == 0)) || failed=1
done
for pattern in "${expected[@]}"; do
  if ! grep -qE -- "$pattern" "$folder/write"; then
    echo "FAIL: expected a message like '$pattern'"
    failed=1
  fi
done
exit $failed
