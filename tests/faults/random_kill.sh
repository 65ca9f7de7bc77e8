#!/usr/bin/env bash
# kill -9 of a random rank or the loss of a random node, at a random moment of a run of 20 checkpoints: the next
# run starts from the newest checkpoint that was complete, by the record outside the cache, or a newer one.
#
#   random_kill.sh BIN ROUNDS [SEED]
source "$(dirname "$0")/lib.sh"
rounds=$1 seed=${SEED:-${2:-$RANDOM}}
RANDOM=$seed
echo "seed $seed"

schemes=(XOR PARTNER RS)

kill_a_rank() { # node-number
  cluster exec "node$1" bash -c '
    pids=($(pgrep -x native_app))
    ((${#pids[@]} > 0)) && kill -9 "${pids['"$RANDOM"' % ${#pids[@]}]}"'
}

# Waits until the program runs on a node, or the run is over: mpirun may wait for ever for a node that dies while it
# starts there, whatever the program is.
wait_for_program() { # node-number pid
  while kill -0 "$2" 2>/dev/null && ! cluster exec "node$1" pgrep -x native_app >/dev/null; do sleep 0.01; done
}

# Waits until the record has that many lines, or the run is over.
wait_for_lines() { # lines pid
  local lines=0
  while ((lines < $1)) && kill -0 "$2" 2>/dev/null; do
    sleep 0.01
    [[ -f $record ]] && lines=$(wc -l <"$record")
  done
}

begin "random kills"
app "0 1 2 3" 1 2 3000 --record "$record"
expect_restart 0
for ((round = 1; round <= rounds; round++)); do
  export SCR_COPY_TYPE=${schemes[round % 3]} SCR_SET_FAILURES=1
  node=$((RANDOM % 4)) steps=$((RANDOM % 20)) delay=$((RANDOM % 150))
  if ((RANDOM % 2)); then victim=rank; else victim=node; fi
  case_name="round $round: $victim of node$node dies $delay ms after checkpoint $steps (${SCR_COPY_TYPE}, seed $seed)"
  lines=$(($(wc -l <"$record") + steps))
  cluster run --per-node 2 -host node0:2,node1:2,node2:2,node3:2 -n 8 \
    "$bin/native_app" 20 2 3000 --sleep 20 --record "$record" >"$SCR_PREFIX/killed.out" 2>&1 &
  pid=$!
  wait_for_program $node $pid
  wait_for_lines "$lines" $pid
  sleep "$(printf '0.%03d' $delay)"
  if [[ $victim == node ]]; then
    wipe $node
  else
    kill_a_rank $node
  fi
  wait $pid
  status=$?
  out=$(<"$SCR_PREFIX/killed.out")
  expect_harmless
  newest=$(last_recorded)
  echo "$case_name: exit status $status, newest recorded $newest"
  app "0 1 2 3" 0 2 3000 --check-only
  expect_newest "$newest"
done
finish
