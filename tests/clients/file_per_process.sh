#!/usr/bin/env bash
# An unmodified HDF5 program, one file per process: 8 ranks on 4 nodes, a node is killed, the program finds
# its newest complete checkpoint by glob on the spare node and comes to the same result as without h5scr.
#
#   file_per_process.sh BUILD
source "$(dirname "$0")/lib.sh"

begin_client "the result without h5scr"
reference=$SCR_PREFIX
plain_client "$examples/heat_hdf5" 60 10 heat.pgm
expect_status 0
expect_line "done: 60 steps"

same_as_reference() {
  expect_same_file heat.pgm "$reference/heat.pgm"
  local file
  for file in "$reference"/ckpt_*.h5; do
    h5diff "$file" "$(basename "$file")" >diff.out 2>&1
    check $? "h5diff of $(basename "$file"): $(head -c 300 diff.out)"
  done
}

begin_client "with h5scr, undisturbed"
client "$examples/heat_hdf5" 60 10 heat.pgm
expect_status 0
expect_text "48 files routed .* 6 datasets protected, 6 flushed"
same_as_reference
scr_index --verify-all >verify.out 2>&1
check $? "scr_index --verify-all: $(head -n 3 verify.out)"

begin_client "a node is killed; restart on the spare from the rebuilt cache"
# The flush is slow, so that the newest checkpoint is in the cache only; and there is room for those that wait.
export SCR_FLUSH_ASYNC_BW=1 SCR_CACHE_SIZE=6
run_and_lose node2 "ckpt_0030.7.h5 ckpt_0030.0.h5" client "$examples/heat_hdf5" 60 10 heat.pgm 50
unset SCR_FLUSH_ASYNC_BW SCR_CACHE_SIZE
client "$examples/heat_hdf5" 60 10 heat.pgm
expect_status 0
expect_text "restarted from step [2345]0"
expect_text "restored from the cache, 2 rank"
same_as_reference
scr_index --verify-all >verify.out 2>&1
check $? "scr_index --verify-all: $(head -n 3 verify.out)"
finish
