#!/usr/bin/env bash
# An unmodified parallel HDF5 program with one shared file per checkpoint is killed at random moments, again
# and again, in the middle of a write, a close or an encode: the next run finds the newest checkpoint that it
# had said was written, or a newer one, and the files in the prefix directory are always whole.
#
#   shared_kills.sh BUILD KILLS [SEED]
source "$(dirname "$0")/lib.sh"
kills=$1 seed=${SEED:-${2:-$RANDOM}}
RANDOM=$seed
echo "seed $seed"

newest_written() { sed -n 's/^step \([0-9]*\): checkpoint written$/\1/p' run.out 2>/dev/null | tail -n 1; }

run_and_kill() { # milliseconds after its first checkpoint
  : >run.out
  cluster run --per-node "$per_node" -x "LD_PRELOAD=$build/lib/libscr_mpiio.so" -n "$ranks" \
    "$examples/heat_parallel" 100000 5 heat.pgm 1 >run.out 2>&1 &
  local run=$! i
  for ((i = 0; i < 600; i++)); do
    [[ -n $(newest_written) ]] && break
    sleep 0.05
  done
  sleep "$(printf '0.%03d' "$1")"
  case $((RANDOM % 3)) in
    0) cluster kill "node$((RANDOM % 3))" ;;
    1) cluster exec node1 bash -c 'kill -KILL $(pidof -s heat_parallel)' ;;
    2) cluster exec all bash -c 'kill -KILL $(pidof heat_parallel)' ;;
  esac >/dev/null 2>&1
  wait $run
  status=$?
  out=$(cat run.out)
}

begin_client "one shared file per checkpoint; $kills kills"
ranks=6
written=0
for ((k = 0; k < kills; k++)); do
  run_and_kill $((RANDOM % 1000))
  expect_no_hang
  if ((k > 0)); then
    found=$(sed -n 's/^restarted from step //p' <<<"$out")
    ((${found:-0} >= written))
    check $? "kill $k: step $written was written, but the run found ${found:-nothing}"
  fi
  last=$(newest_written)
  written=${last:-$written}
  cluster revive all
done
# What the program makes of it without h5scr, from what is in the prefix directory at the end.
steps=$(((written / 5 + 2) * 5))
client "$examples/heat_parallel" "$steps" 5 heat.pgm
expect_status 0
found=$(sed -n 's/^restarted from step //p' <<<"$out")
((${found:-0} >= written))
check $? "the end: step $written was written, but the run found ${found:-nothing}"
scr_index --verify-all >verify.out 2>&1
check $? "scr_index --verify-all: $(head -n 3 verify.out)"
expect_no_notes
result=$SCR_PREFIX/heat.pgm
begin_client "the result without h5scr"
plain_client "$examples/heat_parallel" "$steps" "$steps" heat.pgm
expect_same_file heat.pgm "$result"
finish
