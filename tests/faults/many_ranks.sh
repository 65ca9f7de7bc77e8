#!/usr/bin/env bash
# 64 ranks on eight light nodes: more ranks than cores, several sets on each node.
source "$(dirname "$0")/lib.sh"

for scheme in XOR PARTNER RS; do
  begin "64 ranks, $scheme, lose a node"
  export SCR_COPY_TYPE=$scheme SCR_SET_FAILURES=2
  per_node=8 ranks=64
  app any 2 2 2000
  expect_restart 0
  wipe 3
  app any 1 2 2000
  expect_restart 2
  expect_text "dataset 2 .* restored from the cache, 8 rank"
done
finish
