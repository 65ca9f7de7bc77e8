#!/usr/bin/env bash
# SCR_FLUSH_ASYNC_BW holds for all processes together, and datasets queue without blocking the program.
#
#   limits.sh BIN
source "$(dirname "$0")/lib.sh"
export H5SCR_CLUSTER_TIMEOUT=200

seconds_of() { # dataset
  sed -n "s/.*dataset $1 .*flushed: .*files, \([0-9.]*\) s.*/\1/p" <<<"$out"
}

for form in files containers; do
  start "200 MB at 20 MB/s, $form"
  layout $form
  export SCR_CONTAINER_SIZE=64MB SCR_FLUSH_ASYNC=1 SCR_FLUSH_ASYNC_BW=20000000 SCR_COPY_TYPE=SINGLE
  app any 1 1 25000000
  expect_restart 0
  seconds=$(seconds_of 1)
  check "$(awk "BEGIN { exit !(${seconds:-0} >= 9) }"; echo $?)" "the flush took ${seconds:-no} s, less than 9"
  expect_index 1
done

start "two datasets queue without blocking the program"
export SCR_FLUSH_ASYNC=1 SCR_FLUSH_ASYNC_BW=100000 SCR_CACHE_SIZE=4
cluster run --per-node 2 -n 8 "$bin/native_app" 3 1 100000 --record "$record" >"$SCR_PREFIX/out" 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && [[ ! -s $record ]]; do sleep 0.05; done
first=$(date +%s)
while kill -0 $pid 2>/dev/null && (($(wc -l <"$record") < 3)); do sleep 0.05; done
written=$(($(date +%s) - first))
wait $pid
status=$? out=$(<"$SCR_PREFIX/out")
expect_restart 0
# Each of the three takes eight seconds to flush.
check "$((written < 8 ? 0 : 1))" "three checkpoints took $written s: the program was blocked"
check "$(($(date +%s) - first >= 20 ? 0 : 1))" "three flushes of 800 kB at 100 kB/s were too fast"
expect_index 3
finish
