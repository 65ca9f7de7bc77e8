#!/usr/bin/env bash
# kill -9 of a rank, or the loss of a node, at a random moment of a flush: the index never names an incomplete
# dataset, the restart flushes or resumes it, and no temporary file remains after the next flush.
#
#   kill.sh BIN ROUNDS [SEED]
source "$(dirname "$0")/lib.sh"
rounds=$1 seed=${SEED:-${2:-$RANDOM}}
RANDOM=$seed
echo "seed $seed"

kill_a_rank() { # node-number
  cluster exec "node$1" bash -c '
    pids=($(pgrep -x native_app))
    ((${#pids[@]} > 0)) && kill -9 "${pids['"$RANDOM"' % ${#pids[@]}]}"'
}

# Waits until a flush is under way that was not before, or the run is over.
wait_for_flush() { # pid
  while kill -0 "$1" 2>/dev/null; do
    compgen -G "$SCR_PREFIX/.scr/scr.dataset.*/flush.scr" >/dev/null && return
    sleep 0.02
  done
}

start "random kills in mid-flush"
app any 1 2 10000 --record "$record"
expect_restart 0
for ((round = 1; round <= rounds; round++)); do
  forms=(files containers)
  layout "${forms[round % 2]}"
  node=$((RANDOM % 4)) delay=$((RANDOM % 3000)) victim=node
  ((RANDOM % 2)) && victim=rank
  case_name="round $round: $victim of node$node dies $delay ms into a flush to ${forms[round % 2]} (seed $seed)"
  # 160 kB at 80 kB/s: every flush takes two seconds, and the program goes on meanwhile.
  export SCR_FLUSH_ASYNC=1 SCR_FLUSH_ASYNC_BW=80000 SCR_CACHE_SIZE=3 SCR_FILE_BUF_SIZE=1000
  cluster run --per-node 2 -n 8 "$bin/native_app" 3 2 10000 --sleep 50 --record "$record" \
    >"$SCR_PREFIX/killed.out" 2>&1 &
  pid=$!
  wait_for_flush $pid
  sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
  if [[ $victim == node ]]; then wipe $node; else kill_a_rank $node; fi
  wait $pid
  status=$?
  out=$(<"$SCR_PREFIX/killed.out")
  expect_harmless
  expect_index any
  newest=$(last_recorded)
  unset SCR_FLUSH_ASYNC SCR_FLUSH_ASYNC_BW SCR_CACHE_SIZE SCR_FILE_BUF_SIZE
  app any 1 2 10000 --record "$record"
  expect_newest "$newest"
  expect_text "dataset $(last_recorded | tr -d ' ') .*flushed|dataset [0-9]+ .*flushed"
  expect_no_temporaries
  expect_index any
  check "$([[ -z $(compgen -G "$SCR_PREFIX/.scr/scr.dataset.*/flush.scr") ]]; echo $?)" "a flush was begun and never ended"
done
case_name="all caches lost after many kills"
newest=$(last_recorded)
wipe_all
app any 0 2 10000 --check-only
expect_restart "$newest"
finish
