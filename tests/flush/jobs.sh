#!/usr/bin/env bash
# Two jobs on one prefix directory: the second is refused while the first lives. A halted job flushes first.
#
#   jobs.sh BIN
source "$(dirname "$0")/lib.sh"

start "two jobs on one prefix directory"
per_node=1 ranks=2
cluster run --per-node 1 -host node0:1,node1:1 -n 2 "$bin/native_app" 200 1 3000 --sleep 100 --record "$record" \
  >"$H5SCR_SHARED/first.out" 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && [[ ! -s $record ]]; do sleep 0.05; done
SCR_JOB_ID=other app "2 3" 1 1 3000
expect_status 4
expect_line "INIT FAILED"
expect_text "the prefix directory '$SCR_PREFIX' is in use by job $SCR_JOB_ID of root on node0"
case_name="the first job is not disturbed, and once it is gone the second may start"
check "$(kill -0 $pid; echo $?)" "the first job has ended: $(<"$H5SCR_SHARED/first.out")"
cluster kill node0
wait $pid
cluster revive node0
newest=$(last_recorded)
SCR_JOB_ID=other app "2 3" 1 1 3000
expect_newest $((newest - 1)) # the last one may have been in the cache only
expect_text "dataset [0-9]+ .*fetched"
expect_no_temporaries
expect_index any

start "four commands that change the index at once lose nothing"
per_node=1 ranks=2
app "2 3" 4 1 3000
expect_restart 0
pids=()
for i in 1 2 3 4; do # each drops its dataset and adds it again, so that any lost change leaves one missing, or twice
  for _ in 1 2 3 4 5 6; do
    "$scr_index" -p "$SCR_PREFIX" --drop "step $i" && "$scr_index" -p "$SCR_PREFIX" --add "scr.dataset.$i" || exit 1
  done >"$H5SCR_SHARED/command.$i" 2>&1 &
  pids+=($!)
done
for i in 1 2 3 4; do
  wait "${pids[i - 1]}"
  check $? "a command failed: $(<"$H5SCR_SHARED/command.$i")"
done
expect_index 4
generation=$("$bin/../bin/scr_print_hash_file" "$SCR_PREFIX/.scr/index.scr" | grep -A 1 GENERATION | tail -n 1 | tr -d ' ')
check "$((generation == 4 + 4 * 6 * 2 ? 0 : 1))" "the index counts $generation changes instead of $((4 + 4 * 6 * 2))"

start "a job that is halted flushes first"
per_node=1 ranks=4
export SCR_FLUSH=1000 SCR_HALT_EXIT=1 SCR_HALT_SECONDS=100000
for seconds in 6 20 60; do # until the first checkpoint is written; a busy machine takes its time
  SCR_END_TIME=$(($(date +%s) + 100000 + seconds)) app any 1000 1 3000 --sleep 100 --record "$record"
  [[ -s $record ]] && break
done
expect_text "halt:"
expect_no_text '^DONE'
expect_text "dataset [0-9]+ .*flushed"
newest=$(last_recorded)
wipe_all
SCR_HALT_SECONDS=0 SCR_HALT_EXIT=0 app any 0 1 3000 --check-only
expect_newest "$newest"
finish
