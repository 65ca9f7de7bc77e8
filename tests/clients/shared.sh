#!/usr/bin/env bash
# An unmodified parallel HDF5 program that writes one shared file per checkpoint: 8 ranks on 4 nodes.
#
#   shared.sh BUILD [case...]     all cases, or those named
source "$(dirname "$0")/lib.sh"

plain_reference() {
  begin_client "the result without h5scr"
  reference=$SCR_PREFIX
  plain_client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_line "done: 60 steps"
}

# Picture and every checkpoint, byte for byte.
same_as_reference() { # [checkpoint...]
  local file
  (($#)) || set -- "$reference"/ckpt_*.h5
  expect_same_file heat.pgm "$reference/heat.pgm"
  for file; do expect_same_file "$(basename "$file")" "$reference/$(basename "$file")"; done
}

expect_verified() {
  scr_index --verify-all >verify.out 2>&1
  check $? "scr_index --verify-all: $(head -n 3 verify.out)"
}

# Runs until the checkpoint of step 30 is in the cache, and only there; then the nodes are killed.
run_and_lose() { # node...
  local node
  export SCR_FLUSH_ASYNC_BW=1
  (
    for ((i = 0; i < 900; i++)); do
      [[ -e ckpt_0030.h5 ]] && break
      sleep 0.05
    done
    sleep 0.3
    for node; do cluster kill "$node"; done
  ) &
  local killer=$!
  client "$examples/heat_parallel" 60 10 heat.pgm 50
  wait $killer
  [[ $status != 0 ]]
  check $? "the run must have failed with its node"
  unset SCR_FLUSH_ASYNC_BW
}

case_undisturbed() {
  begin_client "with h5scr, undisturbed"
  client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "6 files routed .* 6 datasets protected, 6 flushed"
  same_as_reference
  expect_verified
  expect_no_notes
}

case_node_lost() {
  begin_client "a node is killed; restart on the spare from the rebuilt logs"
  run_and_lose node2
  client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "restarted from step [345]0"
  expect_text "restored from the cache, 2 rank"
  same_as_reference
  expect_verified
}

plain_reference
run_cases "$@"
