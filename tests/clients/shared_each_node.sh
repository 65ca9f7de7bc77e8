#!/usr/bin/env bash
# An unmodified parallel HDF5 program, 8 ranks on 4 nodes; each node is killed, and the run goes on from the cache.
#
#   shared_each_node.sh BUILD TYPE:NODE...     as XOR:0 or RS:3
source "$(dirname "$0")/shared_lib.sh"

plain_reference
for pair; do
  begin_client "${pair%:*}: node${pair#*:} is killed; restart on the spare"
  export SCR_COPY_TYPE=${pair%:*}
  run_and_lose "node${pair#*:}"
  client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "restarted from step [345]0"
  expect_text "restored from the cache, 2 rank"
  same_as_reference
  expect_verified
done
finish
