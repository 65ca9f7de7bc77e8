#!/usr/bin/env bash
# The allocation ends with the newest checkpoint, a file that all ranks of an unmodified parallel HDF5 program
# wrote together, only in the caches of the nodes: scr_postrun makes the plain file of it, also with a node dead.
# Four nodes with two ranks each; XOR sets have one rank of every node.
#
#   scavenge_shared.sh BUILD [case...]
export H5SCR_CLUSTER_TIMEOUT=${H5SCR_CLUSTER_TIMEOUT:-150} # a busy machine is no hang
source "$(dirname "$0")/lib.sh"
export SCR_NODELIST='node[0-3]'
heat=$examples/heat_parallel

reference() {
  begin_client "the result without h5scr"
  reference=$SCR_PREFIX
  plain_client "$heat" 40 10 heat.pgm
  expect_status 0
}

# Step 20 is in the prefix directory, step 40 in the caches only.
two_runs() { # text
  begin_client "$1"
  unset SCR_USE_CONTAINERS SCR_CONTAINER_SIZE SCR_CONTAINER_PARITY
  [[ ${2:-files} == files ]] || export SCR_USE_CONTAINERS=1 SCR_CONTAINER_SIZE=20000 SCR_CONTAINER_PARITY=1
  client "$heat" 20 10 heat.pgm
  expect_status 0
  expect_current ckpt_0020
  export SCR_FLUSH=0
  client "$heat" 40 10 heat.pgm
  expect_status 0
  expect_line "restarted from step 20"
  expect_same_file heat.pgm "$reference/heat.pgm"
  unset SCR_FLUSH
  expect_current ckpt_0020
}

postrun() { # option...
  out=$(cluster head timeout -k 5 120 scr_postrun "$@" 2>&1)
  status=$?
}

expect_nothing_left() {
  local left
  left=$(find . -name '*.tmp' -o -name '*.scrfilemap' -o -name '*.scrlog' -o -name 'scavenge.*' -o -name flush.scr)
  [[ -z $left ]]
  check $? "left behind: $left"
}

expect_saved() { # ranks-rebuilt
  expect_status 0
  expect_text "saved, .*$1 rank\(s\) rebuilt"
  expect_text "a restart will begin with checkpoint [0-9]+ 'ckpt_0040'"
  expect_current ckpt_0040
  expect_nothing_left
  scr_index --verify-all >verify.out 2>&1
  check $? "scr_index --verify-all: $(head -n 3 verify.out)"
}

# With all caches empty, a run goes on from the saved step.
expect_goes_on() { # step
  cluster revive all
  wipe 0 1 2 3
  client "$heat" 50 10 heat.pgm
  expect_status 0
  expect_line "restarted from step $1"
}

case_files() {
  two_runs "all nodes are there"
  postrun
  expect_saved 0
  expect_same_file ckpt_0040.h5 "$reference/ckpt_0040.h5"
  postrun
  expect_text "nothing to save"

  two_runs "one node is dead"
  lose 1
  postrun
  expect_text "no answer from node1"
  expect_saved 2
  expect_same_file ckpt_0040.h5 "$reference/ckpt_0040.h5"
  expect_real ckpt_0040.h5
  expect_goes_on 40

  two_runs "the node of the first rank is dead, and known to be"
  lose 0
  postrun --down node0
  expect_saved 2
  expect_same_file ckpt_0040.h5 "$reference/ckpt_0040.h5"
}

# What a flush of the same step leaves in containers.
case_containers() {
  begin_client "an undisturbed run in containers"
  export SCR_USE_CONTAINERS=1 SCR_CONTAINER_SIZE=20000 SCR_CONTAINER_PARITY=1
  local flushed=$SCR_PREFIX container file
  client "$heat" 40 10 heat.pgm
  expect_status 0
  for node in 0 2; do
    two_runs "in containers, node$node is dead" containers
    lose $node
    postrun
    expect_saved 2
    container=$(dirname "$(find .scr -path '*scr.dataset.4/summary.scr')")
    for file in "$container"/ctr.*; do
      expect_same_file "$file" "$flushed/$file"
    done
    scr_index --extract ckpt_0040 --to out >extract.out 2>&1
    check $? "scr_index --extract: $(head -n 3 extract.out)"
    expect_same_file out/ckpt_0040.h5 "$reference/ckpt_0040.h5"
    with_driver h5dump -d field -s 0,0 -c 1,4 ckpt_0040.h5 >dump.out 2>&1
    check $? "h5dump of a shared file in a container: $(head -n 3 dump.out)"
  done
  expect_goes_on 40
}

case_unrecoverable() {
  for form in files containers; do
    two_runs "two nodes of each XOR set are dead: $form" $form
    lose 0 3
    postrun
    expect_status 3
    expect_text "NOT saved: .*unrecoverable: XOR set 0 bears the loss of 1 of its 4 members"
    expect_text "rank 0 on node0, rank 6 on node3"
    expect_text "a restart will begin with checkpoint [0-9]+ 'ckpt_0020'"
    expect_current ckpt_0020
    expect_goes_on 20
    expect_nothing_left
    [[ $form == containers ]] || expect_same_file ckpt_0020.h5 "$reference/ckpt_0020.h5"
  done
}

# scr_postrun dies while it puts the file together; the next one ends it.
case_kill() {
  for form in files containers; do
    local target='*.ckpt_0040.h5.scr-*'
    [[ $form == files ]] || target='*ctr.1.scr*'
    two_runs "kill -9 in the middle of the shared file, then again: $form" $form
    lose 2
    SCR_FAULT="action=tear,op=write,n=1,path=$target" SCR_FILE_BUF_SIZE=4KB postrun
    expect_status 137
    expect_current ckpt_0020
    [[ $form == containers || ! -e ckpt_0040.h5 ]] || ! h5ls ckpt_0040.h5 >ls.out 2>&1
    check $? "a half file has the final name"
    postrun
    expect_saved "[0-9]+"
    [[ $form == containers ]] || expect_same_file ckpt_0040.h5 "$reference/ckpt_0040.h5"
    expect_goes_on 40
  done
}

reference
run_cases "$@"
