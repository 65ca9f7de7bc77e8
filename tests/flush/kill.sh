#!/usr/bin/env bash
# kill -9 of a rank or of a scr_transfer, or the loss of a node, at a random moment of a flush: the index never
# names an incomplete dataset, the restart flushes or resumes it, and no temporary file remains after the next
# flush.
#
#   kill.sh BIN ROUNDS [SEED]
source "$(dirname "$0")/lib.sh"
commands=$(cd "$bin/../bin" && pwd)
source "$(dirname "$0")/daemons.sh"
rounds=$1 seed=${SEED:-${2:-$RANDOM}}
RANDOM=$seed
echo "seed $seed"

kill_a_rank() { # node-number
  cluster exec "node$1" bash -c '
    pids=($(pgrep -x native_app))
    ((${#pids[@]} > 0)) && kill -9 "${pids['"$RANDOM"' % ${#pids[@]}]}"'
}

# Waits until a flush is under way that was not before. Fails if the run is over first.
wait_for_flush() { # pid
  while kill -0 "$1" 2>/dev/null; do
    compgen -G "$SCR_PREFIX/.scr/scr.dataset.*/flush.scr" >/dev/null && return
    sleep 0.02
  done
  return 1
}

# The newest dataset whose flush was begun and not ended, by its id; nothing if there is none.
interrupted() {
  local file
  for file in "$SCR_PREFIX"/.scr/scr.dataset.*/flush.scr; do
    [[ -e $file ]] || continue
    file=${file%/flush.scr}
    file=${file##*scr.dataset.}
    echo "${file%%.*}"
  done | sort -n | tail -n 1
}

expect_complete() { # id
  "$scr_index" -p "$SCR_PREFIX" --json | python3 -c '
import json, sys
sys.exit(0 if any(e["id"] == int(sys.argv[1]) and e["complete"] for e in json.load(sys.stdin)) else 1)' "$1"
  check $? "dataset $1 is not complete in the index"
}

start "random kills in mid-flush"
app any 1 2 10000 --record "$record"
expect_restart 0
for ((round = 1; round <= rounds; round++)); do
  forms=(files containers)
  layout "${forms[round % 2]}"
  victims=(node rank daemon)
  node=$((RANDOM % 4)) delay=$((RANDOM % 3000)) victim=${victims[(round + seed) % 3]}
  case_name="round $round: $victim of node$node dies $delay ms into a flush to ${forms[round % 2]} (seed $seed)"
  # 160 kB at 80 kB/s: every flush takes two seconds, and the program goes on meanwhile.
  export SCR_FLUSH_ASYNC=1 SCR_FLUSH_ASYNC_BW=80000 SCR_CACHE_SIZE=3 SCR_FILE_BUF_SIZE=1KB
  if [[ $victim == daemon ]]; then
    export SCR_FLUSH_TYPE=DAEMON
    start_daemons
  fi
  cluster run --per-node 2 -n 8 "$bin/native_app" 3 2 10000 --sleep 50 --record "$record" \
    >"$SCR_PREFIX/killed.out" 2>&1 &
  pid=$!
  wait_for_flush $pid
  check $? "the run ended without a flush: $(<"$SCR_PREFIX/killed.out")"
  sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
  case $victim in
    node) wipe $node ;;
    rank) kill_a_rank $node ;;
    daemon) kill_daemon "node$node" ;;
  esac
  wait $pid
  status=$?
  out=$(<"$SCR_PREFIX/killed.out")
  if [[ $victim == daemon ]]; then # the program copies itself
    expect_status 0
    for i in 0 1 2 3; do kill_daemon "node$i"; done
  fi
  expect_harmless
  cut=$(interrupted)
  expect_index any
  newest=$(last_recorded)
  unset SCR_FLUSH_TYPE SCR_FLUSH_ASYNC SCR_FLUSH_ASYNC_BW SCR_CACHE_SIZE SCR_FILE_BUF_SIZE
  app any 1 2 10000 --record "$record"
  expect_newest "$newest"
  [[ -z $cut ]] || expect_complete "$cut"
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
