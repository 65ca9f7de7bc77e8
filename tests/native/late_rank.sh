#!/usr/bin/env bash
# A rank that does not come to a collective call is named in a warning; with SCR_COLLECTIVE_TIMEOUT the run ends.
#
#   late_rank.sh late_rank-program
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/prefix" "$folder/cache"
cd "$folder/prefix" || exit 2
export SCR_PREFIX=$folder/prefix SCR_CNTL_BASE=$folder/cache SCR_CACHE_BASE=$folder/cache SCR_JOB_ID=1
export SCR_FLUSH=0 SCR_FETCH=0
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failed=0

run() { # rank-that-is-late seconds
  out=$(timeout -k 5 100 "${MPIEXEC:-mpirun}" -n 4 "$program" "$1" "$2" 2>&1)
  status=$?
}
expect() { # condition-status text
  (($1 == 0)) && return
  failed=1
  printf 'FAIL: %s; exit status %s, output:\n%s\n' "$2" "$status" "$out"
}
says() { grep -qE -- "$1" <<<"$out"; }

program=$1
for late in 2 0; do # rank 0 is the one that speaks if it is there
  SCR_COLLECTIVE_WARNING=1 run "$late" 5
  expect "$status" "a rank that comes late must not end the run"
  says "waiting for rank $late since [0-9]+ s: not yet at SCR_Need_checkpoint"
  expect $? "no warning names rank $late"
  says '^END$'
  expect $? "the run did not come to its end"

  SCR_COLLECTIVE_TIMEOUT=2 run "$late" 60
  [[ $status != 0 && $status != 124 ]]
  expect $? "a rank that does not come in time must end the run"
  says "rank $late did not come to SCR_Need_checkpoint within SCR_COLLECTIVE_TIMEOUT=2 s"
  expect $? "no error names rank $late"
done
exit $failed
