#!/usr/bin/env bash
# An unmodified parallel HDF5 program that writes one shared file per checkpoint: 8 ranks on 4 nodes.
#
#   shared.sh BUILD [case...]     all cases, or those named
source "$(dirname "$0")/shared_lib.sh"

case_undisturbed() {
  begin_client "with h5scr, undisturbed"
  client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "6 files routed .* 6 datasets protected, 6 flushed"
  same_as_reference
  expect_verified
  expect_no_notes
}

# Every way to lay out a file with parallel HDF5, against the same program without h5scr.
case_layouts() {
  begin_client "all layouts of parallel HDF5, without h5scr"
  local plain=$SCR_PREFIX file
  plain_client "$examples/parallel_layouts" write
  expect_status 0
  begin_client "all layouts: flushed files are the same; then from the cache alone with a node lost, on other ranks"
  client "$examples/parallel_layouts" write
  expect_status 0
  expect_text "5 files routed .* 5 datasets protected, 5 flushed"
  for file in "$plain"/layout_*.h5; do expect_same_file "$(basename "$file")" "$file"; done
  expect_verified
  rm layout_*.h5
  SCR_FLUSH=0 SCR_CACHE_SIZE=10 SCR_JOB_ID=$job.cache client "$examples/parallel_layouts" write
  expect_status 0
  expect_text "5 files routed .* 5 datasets protected, 0 flushed"
  cluster kill node3
  ranks=6 SCR_CACHE_SIZE=10 SCR_JOB_ID=$job.cache client "$examples/parallel_layouts" read
  expect_status 0
  for file in contiguous independent chunked compressed groups; do expect_line "$file: right"; done
  expect_same_file layout_groups.h5 "$plain/layout_groups.h5" # the newest, which is flushed at the end
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

case_other_ranks() {
  begin_client "restart on fewer and on more ranks, from the cache with a node lost, and from the prefix directory"
  run_and_lose node1
  ranks=6
  client "$examples/heat_parallel" 50 10 heat.pgm
  expect_status 0
  expect_text "restarted from step [34]0"
  per_node=3 ranks=12
  client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "restarted from step 50"
  same_as_reference
  expect_verified
}

case_rs_two_nodes() {
  begin_client "Reed-Solomon: two nodes are killed"
  export SCR_COPY_TYPE=RS SCR_SET_FAILURES=2
  per_node=2 ranks=6
  run_and_lose node0 node2
  client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "restarted from step [345]0"
  expect_text "restored from the cache, 4 rank"
  same_as_reference
}

case_too_many() {
  begin_client "one node more than XOR bears: refused, and the older checkpoint of the prefix directory is used"
  client "$examples/heat_parallel" 20 10 heat.pgm
  expect_status 0
  run_and_lose node1 node2
  cluster revive node1
  client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "cannot be restored from the cache"
  expect_text "restarted from step 20"
  same_as_reference
}

case_containers() {
  begin_client "in containers, with all caches wiped before the restart"
  export SCR_USE_CONTAINERS=1 SCR_CONTAINER_SIZE=100000
  client "$examples/heat_parallel" 30 10 heat.pgm
  expect_status 0
  expect_verified
  wipe 0 1 2 3
  client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "restarted from step 30"
  expect_same_file heat.pgm "$reference/heat.pgm"
  with_driver h5dump -d field -s 0,0 -c 1,4 ckpt_0060.h5 >dump.out 2>&1
  check $? "h5dump of a shared file in a container: $(head -n 3 dump.out)"
}

case_no_stall() {
  begin_client "a rank that is outside MPI does not stall another's read of its bytes on another node"
  client "$clients/shared_stall"
  expect_status 0
  expect_line READ
  expect_text "1 files routed"
  expect_no_hang
}

case_holes() {
  begin_client "a file of 2 GiB that is nearly all hole, without h5scr"
  ranks=4
  plain_client "$clients/shared_holes"
  expect_done
  local plain=$SCR_PREFIX
  begin_client "the same with h5scr: the flushed file is the same, and takes no room either"
  ranks=4
  client "$clients/shared_holes"
  expect_done
  expect_text "1 files routed .* 1 datasets protected, 1 flushed"
  expect_same_file holes.dat "$plain/holes.dat"
  (($(du -k holes.dat | cut -f 1) < 4096))
  check $? "'holes.dat' takes $(du -k holes.dat | cut -f 1) KiB"
}

case_mpiio() {
  begin_client "the same program with plain MPI-IO, without h5scr"
  plain_client "$examples/heat_mpiio" 60 10 heat.pgm
  expect_status 0
  local plain=$SCR_PREFIX
  begin_client "plain MPI-IO: a node is killed; restart on the spare, and on other ranks"
  program=heat_mpiio suffix=dat run_and_lose node1
  ranks=6
  client "$examples/heat_mpiio" 60 10 heat.pgm
  expect_status 0
  expect_text "restarted from step [345]0"
  expect_same_file heat.pgm "$plain/heat.pgm"
  expect_same_file ckpt_0060.dat "$plain/ckpt_0060.dat"
  expect_verified
}

case_stays_open() {
  begin_client "a shared file is kept open and synced: it lives at its name, and outlives a kill"
  ranks=4
  plain_client "$clients/shared_open" plain 6 0
  expect_done
  client "$clients/shared_open" series 6 0 sync kill
  expect_text "ROWS 6"
  expect_text "series' is kept open and flushed"
  expect_same_file series plain
  client "$clients/shared_open" again 6 0 sync
  expect_done
  expect_text "7 files routed .* 4 datasets protected, .* 1 moved while open"
  expect_same_file again plain
  expect_verified
  expect_no_notes

  begin_client "one is kept open without a sync: checkpoints are protected nevertheless, after a while"
  ranks=4
  plain_client "$clients/shared_open" plain 10 0
  expect_done
  client "$clients/shared_open" series 10 1
  expect_done
  expect_text "series' stays open"
  expect_text "11 files routed .* [3-6] datasets protected, .* 1 moved while open"
  expect_same_file series plain
  expect_same_file series.9 plain.9
  expect_verified
  expect_no_notes
}

case_rescued() {
  begin_client "a dataset whose redundancy data cannot be written: its shared file goes to its name"
  SCR_FAULT="op=write,path=*.xor,action=enospc,rank=3" client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_text "written to their names, without protection"
  same_as_reference
}

plain_reference
run_cases "$@"
