#!/usr/bin/env bash
# An unmodified program that writes its restart file anew each step is killed at random moments, again and
# again: the next run finds the newest step that was sealed or a newer one, the same on all ranks, and the
# files in the prefix directory are always whole.
#
#   kills.sh BUILD KILLS [SEED]
source "$(dirname "$0")/lib.sh"
kills=$1 seed=${SEED:-${2:-$RANDOM}}
RANDOM=$seed
echo "seed $seed"

# Kills one rank, a node, or all ranks some time after the run has begun to write.
kill_later() { # milliseconds
  local lines i
  lines=$(wc -l <record 2>/dev/null || echo 0)
  for ((i = 0; i < 300; i++)); do
    (($(wc -l <record 2>/dev/null || echo 0) > lines)) && break
    sleep 0.1
  done
  sleep "$(printf '0.%03d' "$1")"
  case $((RANDOM % 3)) in
    0) cluster kill "node$((RANDOM % 3))" ;;
    1) cluster exec node1 bash -c 'kill -KILL $(pidof acts)' ;;
    2) for node in 0 1 2; do cluster exec "node$node" bash -c 'kill -KILL $(pidof acts)'; done ;;
  esac
} >/dev/null 2>&1

begin_client "restart.h5 is written anew each step, one a rank and one by rank 0; $kills kills"
ranks=6
acts_of_run=("resume restart.%r.h5" "resume0 main.h5" "while 100000" "write restart.%r.h5 %s 40000"
  "@0 write main.h5 %s 40000" barrier "record record" again)
for ((k = 0; k < kills; k++)); do
  case $((RANDOM % 3)) in
    0) unset SCR_FLUSH_ASYNC SCR_FLUSH_ASYNC_BW ;;
    1) export SCR_FLUSH_ASYNC=0 ;;
    2) export SCR_FLUSH_ASYNC_BW=2MB ;;
  esac
  sealed=$(tail -n 1 record 2>/dev/null || echo 0)
  kill_later $((RANDOM % 1000)) &
  killer=$!
  client "$clients/acts" "${acts_of_run[@]}"
  wait $killer
  found=$(sed -n 's/^FOUND //p' <<<"$out" | head -n 1)
  expect_no_hang
  expect_no_text "WRONG|DISAGREE"
  ((${found:-0} >= ${sealed:-0}))
  check $? "kill $k: step ${sealed:-0} was sealed, but the run found ${found:-nothing}"
  cluster revive all
  unset SCR_FLUSH_ASYNC SCR_FLUSH_ASYNC_BW
done
sealed=$(tail -n 1 record)
client "$clients/acts" "resume restart.%r.h5" "resume0 main.h5" barrier
expect_done
found=$(sed -n 's/^FOUND //p' <<<"$out" | head -n 1) last=$out
plain_client "$clients/acts" "resume restart.%r.h5" "resume0 main.h5"
expect_done
((${found:-0} >= sealed)) && grep -qx "FOUND $found" <<<"$out"
check $? "the end: $found, sealed $sealed"
out=$last
expect_no_notes
finish
