#!/usr/bin/env bash
# scr_run with an unmodified HDF5 program that loses a node twice: it comes to the right end, and the log tells
# the story. Also: too few nodes, excluded nodes, a restart command, refusals.
#
#   relaunch.sh BUILD [case...]
source "$(dirname "$0")/lib.sh"
heat=$examples/heat_hdf5

reference() {
  [[ ${reference:-} ]] && return
  begin_run "the result without h5scr"
  reference=$SCR_PREFIX
  plain_client "$heat" 60 10 heat.pgm
  expect_line "done: 60 steps"
}

case_two_losses() {
  reference
  begin_run "a program loses a node twice"
  export SCR_RUNS=5 SCR_FLUSH=100 # from the cache alone until the end
  when test -e ckpt_0020.7.h5 -a -e ckpt_0020.0.h5 -- cluster kill node2
  first=$waiter
  when test -e ckpt_0040.7.h5 -a -e ckpt_0040.0.h5 -- cluster kill node1
  scr_run_mpi "$heat" 60 10 heat.pgm 50
  wait "$first" "$waiter"
  expect_status 0
  expect_line "done: 60 steps"
  expect_same_file heat.pgm "$reference/heat.pgm"
  expect_text "restarted from step [12]0"
  expect_text "restarted from step [34]0"
  expect_text "scr_run: node2 is not used from now on"
  expect_text "scr_run: node1 is not used from now on"
  expect_no_text "run 4:"
  expect_story 3 '^launch start'
  expect_story 2 '^launch end .*"ok":false'
  expect_story 1 '^launch end .*"ok":true.*nodes node\[0,3-5\]'
  expect_story 1 '^node failure once .*"down_nodes":\["node2"\]'
  expect_story 1 '^node failure once .*"down_nodes":\["node1"\]'
  expect_story 2 '^rebuild end .*[1-9][0-9]* rank\(s\) rebuilt' # of one dataset or of two
  expect_story 1 '^rebuild end .*"bytes":[1-9][0-9]*.*"down_nodes":\["node2"\]'
  expect_story 1 '^rebuild end .*"bytes":[1-9][0-9]*.*"down_nodes":\["node1"\]'
  scr_index --verify-all >verify.out 2>&1
  check $? "scr_index --verify-all: $(head -n 3 verify.out)"
}

case_too_few_nodes() {
  begin_run "after losses too few nodes are left"
  export SCR_RUNS=5 SCR_MIN_NODES=6 SCR_FLUSH=100
  when grep -q '"event":"checkpoint","phase":"end".*ckpt_0010' .scr/log.jsonl -- cluster kill node3
  scr_run_mpi "$heat" 60 10 heat.pgm 50
  wait $waiter
  [[ $status != 0 ]]
  check $? "it must fail"
  expect_text "not started again: 5 of 6 nodes are left, and the program needs 6"
  expect_story 1 '^launch start'
  # What was on node3 is rebuilt from the others.
  expect_text "scr_postrun: a restart will begin with checkpoint [12] 'ckpt_00[12]0'"
  scr_index --verify-all >verify.out 2>&1
  check $? "scr_index --verify-all: $(head -n 3 verify.out)"
}

case_runs_are_counted() {
  begin_run "a program that always fails is started SCR_RUNS times"
  export SCR_RUNS=3
  ranks=1
  scr_run_mpi sh -c 'exit 7'
  expect_status 7
  expect_story 3 '^launch start'
  expect_text "3 of 3 runs are used"
}

case_excluded_nodes() {
  begin_run "SCR_EXCLUDE_NODES keeps nodes out"
  export SCR_EXCLUDE_NODES=node[0-1] SCR_MIN_NODES=4
  scr_run_mpi sh -c 'echo "on $(hostname)"'
  expect_status 0
  expect_no_text "on node[01]$"
  expect_text "on node2"
  begin_run "a node without its storage is not used"
  export SCR_MIN_NODES=4
  cluster exec node0 umount "$H5SCR_NODE_LOCAL"
  cluster exec node0 mount -t tmpfs -o ro tmpfs "$H5SCR_NODE_LOCAL"
  scr_run_mpi sh -c 'echo "on $(hostname)"'
  expect_status 0
  expect_no_text "on node0$"
  expect_text "node0 is not used from now on: .*Read-only file system"
  cluster kill node0
}

case_refusals() {
  begin_run "not from a host that is no node of the job"
  export SCR_NODELIST=node[0-5]
  out=$(cluster head scr_run -- mpirun -n 1 true 2>&1) status=$?
  expect_status 125
  expect_text "this host, head, is not a node of the job \(node\[0-5\]\)"
  out=$(cluster exec node3 scr_run -- hostname 2>&1) status=$?
  expect_status 125 # node3 reaches no other node here, so too few are left
  expect_text "1 of 6 nodes are left"
  out=$(cluster exec node3 scr_run --min-nodes 1 -- hostname 2>&1) status=$?
  expect_status 125 # one is enough now, but hostname cannot be told to leave the others out
  expect_no_text "nodes are left"
  expect_text "nodes are to be left out, but the program is started without a launcher"
  begin_run "not if the only node is down"
  out=$(SCR_NODELIST=node3 SCR_EXCLUDE_NODES=node3 SCR_MIN_NODES=0 cluster exec node3 scr_run -- hostname 2>&1) status=$?
  expect_status 125
  expect_text "0 of 1 nodes are left, and the program needs 1"
  begin_run "not if the runtime does not fit"
  out=$(cluster head scr_run --outside -- mpirun -n 1 /no/such/program 2>&1) status=$?
  expect_status 125
  expect_text "FAILED program: there is no program '/no/such/program'"
  begin_run "a host list with a billion hosts"
  out=$(SCR_NODELIST='n[1-1000000000]' cluster head scr_run --outside -- hostname 2>&1) status=$?
  expect_status 125
  expect_text "names more than 1000000 hosts"
}

case_restart_command() {
  begin_run "the restart command gets the checkpoint's name"
  export SCR_RUNS=2 SCR_FLUSH=100
  when test -e ckpt_0030.7.h5 -a -e ckpt_0030.0.h5 -- cluster kill node2
  run_options="" ranks=8
  out=$(cluster head timeout -k 5 100 scr_run --outside --wait 0 --restart-cmd "sh -c 'echo restart from [\$0]' SCR_CKPT_NAME" -- \
    mpirun --hostfile "$H5SCR_CLUSTER/hostfile" -n 8 "$heat" 60 10 heat.pgm 50 2>&1) status=$?
  wait $waiter
  expect_status 0
  expect_text "restart from \[ckpt_00[23]0\]"
}

case_watchdog() {
  begin_run "a program that hangs is ended and started again"
  export SCR_RUNS=2 SCR_WATCHDOG_TIMEOUT=15 SCR_FLUSH=100
  # Silent: no peer is told, and mpirun waits for ever.
  when test -e ckpt_0020.7.h5 -a -e ckpt_0020.0.h5 -- cluster kill node2 silent
  scr_run_mpi "$heat" 60 10 heat.pgm 50
  wait $waiter
  expect_status 0
  expect_line "done: 60 steps"
  expect_text "ending the program: no checkpoint was completed for [0-9]+ seconds"
  expect_text "restarted from step [12]0"
}

# A flush that takes for ever is under way when the program hangs: the longer time holds, but not for ever.
case_watchdog_flush() {
  begin_run "a program that hangs while a dataset is flushed"
  export SCR_RUNS=1 SCR_WATCHDOG_TIMEOUT=20 SCR_WATCHDOG_TIMEOUT_PFS=45 SCR_FLUSH_ASYNC_BW=1
  when test -e ckpt_0020.7.h5 -a -e ckpt_0020.0.h5 -- cluster kill node2 silent
  limit=200 scr_run_mpi "$heat" 60 10 heat.pgm 50
  wait $waiter
  unset SCR_WATCHDOG_TIMEOUT_PFS SCR_FLUSH_ASYNC_BW
  local silent
  silent=$(sed -n 's/.*ending the program: no checkpoint was completed for \([0-9]*\) seconds.*/\1/p' <<<"$out")
  ((${silent:-0} >= 45))
  check $? "it must be ended after SCR_WATCHDOG_TIMEOUT_PFS, and was after '${silent:-}' seconds"
}

# scr_transfer on every node, as long as the program runs.
case_transfer() {
  local node
  begin_run "SCR_FLUSH_TYPE=DAEMON: scr_run starts scr_transfer"
  export SCR_FLUSH_TYPE=DAEMON SCR_FLUSH_ASYNC=1 SCR_DEBUG=1
  when test -e ckpt_0020.7.h5 -a -e ckpt_0020.0.h5 -- bash -c \
    'for node in node0 node1 node2 node3; do cluster exec "$node" pgrep -x scr_transfer >daemon.$node; done'
  limit=200 scr_run_mpi "$heat" 30 10 heat.pgm 100
  wait $waiter
  unset SCR_FLUSH_TYPE SCR_FLUSH_ASYNC
  export SCR_DEBUG=0
  expect_status 0
  expect_line "done: 30 steps"
  expect_no_text "no scr_transfer is at work"
  expect_text "copied dataset [0-9]+"
  for node in node0 node1 node2 node3; do
    (($(grep -c . "daemon.$node") == 1))
    check $? "there must be one scr_transfer on $node while the program runs"
    ! cluster exec "$node" pgrep -x scr_transfer >left.out
    check $? "scr_transfer is left on $node"
  done
  expect_real ckpt_0030.0.h5 ckpt_0030.7.h5
  scr_index --verify-all >verify.out 2>&1
  check $? "scr_index --verify-all: $(head -n 3 verify.out)"
}

case_drill() {
  begin_run "a drill loses a node and tells how the restart went"
  export SCR_FLUSH=100
  run_options="--drill"
  scr_run_mpi "$heat" 60 10 heat.pgm 100
  unset run_options
  expect_status 0
  expect_line "done: 60 steps"
  expect_text "drill: node3 is lost now"
  expect_text "drill: after the loss of node3: rebuild succeeded: .*2 rank\(s\) rebuilt"
}

case_drill_node() {
  begin_run "a drill of a node that is named"
  export SCR_FLUSH=100
  run_options="--drill node9"
  scr_run_mpi "$heat" 20 10 heat.pgm
  expect_status 125
  expect_text "there is no node 'node9' to lose"
  run_options="--drill node1"
  scr_run_mpi "$heat" 60 10 heat.pgm 100
  unset run_options
  expect_status 0
  expect_line "done: 60 steps"
  expect_text "drill: node1 is lost now"
  expect_no_text "drill: node[023] is lost now"
  expect_text "drill: after the loss of node1: rebuild succeeded: .*2 rank\(s\) rebuilt"
  expect_story 1 '^node failure once .*"down_nodes":\["node1"\].*"note":"drill"'
}

case_signal() {
  begin_run "SIGTERM ends the program and the loop"
  export SCR_RUNS=5
  when test -e ckpt_0010.7.h5 -- cluster head bash -c 'kill -TERM $(pgrep -x scr_run)'
  scr_run_mpi "$heat" 6000 10 heat.pgm 50
  wait $waiter
  expect_text "ending the program: ended by signal 15"
  expect_story 1 '^launch start'
  sleep 1
  left=$(for node in $(cluster nodes); do cluster exec "$node" pgrep -x heat_hdf5; done)
  [[ -z $left ]]
  check $? "processes are left: $left"
}

run_cases "$@"
