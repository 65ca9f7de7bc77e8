#!/usr/bin/env bash
# The allocation ends with the newest checkpoint only in the caches of the nodes: scr_postrun saves it, also
# with nodes dead, and a restart with empty caches finds every byte. Four nodes with two ranks each; XOR sets
# have one rank of every node.
#
#   scavenge.sh BIN CASE
source "$(dirname "$0")/../flush/lib.sh"
export SCR_REMOTE_SHELL=$H5SCR_CLUSTER/bin/cluster-agent SCR_NODELIST='node[0-3]'
export SCR_LOG_ENABLE=1 SCR_LOG_SYSLOG_ENABLE=0
commands=$(dirname "$scr_index")
one_case=$1

postrun() { # option...
  out=$(cluster head timeout -k 5 120 "$commands/scr_postrun" "$@" 2>&1)
  status=$?
}

# Files of a scavenge that is over leave no trace but the data.
expect_clean() {
  expect_no_temporaries
  local left
  left=$(find "$SCR_PREFIX" -name '*.scrfilemap' -o -name '*.xor' -o -name '*.rs' -o -name 'scavenge.*' -o -name flush.scr)
  check "$([[ -z $left ]]; echo $?)" "files of the scavenge remain: $left"
}

# Step 1 is in the prefix directory, step 2 in the caches only.
two_steps() { # text layout
  start "$1"
  layout "$2"
  app any 1 2 5000 --uneven
  expect_restart 0
  expect_current scr.dataset.1
  export SCR_FLUSH=0
  app any 1 2 5000 --uneven
  expect_restart 1
}

# With all caches empty, a restart reads this step from the prefix directory.
expect_fetch() { # step
  revive_all
  wipe_all
  app any 0 2 5000 --uneven --check-only
  expect_restart "$1"
  (($1 == 0)) || expect_text "dataset $1 .*fetched"
}

expect_saved() { # dataset ranks-rebuilt
  expect_status 0
  expect_text "dataset $1 .*: saved, .*$2 rank\(s\) rebuilt"
  expect_text "a restart will begin with checkpoint $1"
  expect_current "scr.dataset.$1"
  expect_clean
  expect_index 2
}

case $one_case in
  files | containers)
    two_steps "all nodes are there: $one_case" "$one_case"
    postrun
    expect_saved 2 0
    postrun
    expect_status 0
    expect_text "nothing to save"
    expect_fetch 2

    two_steps "one node is dead: $one_case" "$one_case"
    lose 1
    postrun
    expect_saved 2 2
    expect_text "no answer from node1"
    check "$(grep -c '"event":"flush".*scavenged' "$SCR_PREFIX/.scr/log.jsonl" | grep -qx 1; echo $?)" \
      "the log does not tell of the scavenge"
    expect_fetch 2

    two_steps "one node is dead, and known to be: $one_case" "$one_case"
    lose 2
    postrun --down node2
    expect_saved 2 2
    expect_fetch 2
    ;;
  unrecoverable)
    two_steps "two nodes of each XOR set are dead" files
    lose 0 3
    postrun
    expect_status 3
    expect_text "dataset 2 .*NOT saved: .*unrecoverable: XOR set 0 bears the loss of 1 of its 4 members"
    expect_text "rank 0 on node0, rank 6 on node3"
    expect_text "a restart will begin with checkpoint 1"
    expect_current scr.dataset.1
    expect_index 1
    # The next run starts with the older one and clears what came of the newer.
    expect_fetch 1
    expect_clean

    start "two nodes are dead: RS bears it"
    export SCR_COPY_TYPE=RS SCR_SET_FAILURES=2 SCR_FLUSH=0
    app any 1 2 5000 --uneven
    lose 0 3
    postrun
    expect_status 0
    expect_text "saved, .* 4 rank\(s\) rebuilt"
    expect_fetch 1

    start "the partner of a dead node has its files"
    export SCR_COPY_TYPE=PARTNER SCR_FLUSH=0
    app any 1 2 5000 --uneven
    lose 2
    postrun
    expect_status 0
    expect_text "saved, .* 2 rank\(s\) rebuilt"
    expect_fetch 1
    ;;
  kill)
    for form in files containers; do
      two_steps "kill -9 of scr_copy on one node, then again: $form" $form
      # Half of the nodes are copied when that one dies, in the middle of a write.
      target='*rank_3.1.dat*'
      [[ $form == files ]] || target='*ctr.1.scr*'
      SCR_FAULT="action=tear,op=write,n=2,path=$target" SCR_FILE_BUF_SIZE=1000 postrun --json
      expect_text "scr_copy on node.*signal 9|Killed|status 137|137"
      # XOR makes up for the one that was killed; lose that, and the second try has to copy.
      if [[ $status != 0 ]]; then
        postrun
        expect_status 0
      fi
      expect_current scr.dataset.2
      expect_clean
      expect_index 2
      expect_fetch 2

      two_steps "kill -9 of scr_copy on all nodes, then again: $form" $form
      SCR_FAULT="action=kill,op=sync,n=2,path=$SCR_PREFIX/*" postrun
      check "$([[ $status != 0 ]]; echo $?)" "it must fail when every scr_copy is killed"
      expect_current scr.dataset.1
      expect_index 1
      postrun
      expect_saved 2 0
      expect_fetch 2
    done
    ;;
  running)
    start "the program is still running"
    export SCR_FLUSH=0
    cluster run --per-node 2 -n 8 "$bin/native_app" 1 2 5000 --sleep 8000 >"$SCR_PREFIX/out" 2>&1 &
    pid=$!
    for ((i = 0; i < 400; i++)); do
      [[ -n $(files_on 0 -name 'flush.scrinfo' 2>/dev/null) ]] && break
      sleep 0.05
    done
    postrun --wait 0.1
    expect_status 1
    expect_text "is in use"
    wait $pid
    ;;
  *)
    echo "no case '$one_case'" >&2
    exit 2
    ;;
esac
finish
