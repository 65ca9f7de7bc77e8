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

scavenge() { # option...
  out=$(cluster head timeout -k 5 120 "$commands/scr_scavenge" "$@" 2>&1)
  status=$?
}

# Files of a scavenge that is over leave no trace but the data.
expect_clean() {
  expect_no_temporaries
  local left
  left=$(find "$SCR_PREFIX" -name '*.scrfilemap' -o -name 'scavenge.*' -o -name flush.scr)
  # Redundancy files that were needed stay, listed as such (NOFETCH).
  local file
  while IFS= read -r file; do
    "$commands/scr_print_hash_file" "$(dirname "$file")/rank2file.0.scr" | grep -A1 -F "$(basename "$file")" > /dev/null || left+=" $file"
  done < <(find "$SCR_PREFIX" -name '*.xor' -o -name '*.rs')
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
  cluster revive all
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

    two_steps "a node that was lost and rebuilt, then another: $one_case" "$one_case"
    wipe 3
    app any 0 2 5000 --uneven --check-only
    expect_restart 2
    expect_text "2 rank\(s\) rebuilt"
    lose 0
    postrun
    expect_saved 2 2
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
      two_steps "kill -9 of scr_copy on one node and of scr_postrun, then again: $form" $form
      # It dies in the middle of a write, each time it is started; so does scr_postrun, in the middle of the
      # rebuild of that very file. Both then go on where they were.
      target='*rank_1.1.dat*'
      [[ $form == files ]] || target='*ctr.0.scr*'
      SCR_FAULT="action=tear,op=write,n=2,path=$target" SCR_FILE_BUF_SIZE=1KB postrun
      expect_text "scr_copy on node0: .*137"
      expect_status 137
      expect_current scr.dataset.1
      expect_index 1
      postrun
      expect_saved 2 0
      expect_fetch 2

      two_steps "kill -9 of scr_copy on all nodes, then again: $form" $form
      SCR_FAULT="action=kill,op=sync,n=2,path=$SCR_PREFIX/*" postrun
      expect_status 1
      expect_text "NOT saved: .*scr_copy failed on node0, node1, node2, node3, where it may be: try again"
      expect_current scr.dataset.1
      expect_index 1
      postrun
      expect_saved 2 0
      expect_fetch 2
    done
    ;;
  command)
    # scr_scavenge itself; what it does for scr_postrun is in the other cases.
    two_steps "scr_scavenge with a node dead" files
    lose 3
    scavenge --json --quiet --id 2
    expect_status 0
    python3 -c '
import json, sys
saved = json.loads(sys.argv[1][sys.argv[1].index("{"):])["datasets"]
sys.exit(0 if [(d["id"], d["state"], d["rebuilt_ranks"]) for d in saved] == [(2, "saved", [6, 7])] else 1)' "$out"
    check $? "its JSON does not tell what was saved"
    expect_current scr.dataset.2
    expect_clean
    scavenge --id 2
    expect_status 0
    expect_text "is in the prefix directory already"
    scavenge --id 9
    expect_status 1
    expect_text "no node has dataset 9"
    scavenge --id ../2
    expect_status 2
    expect_fetch 2

    two_steps "scr_scavenge with too many nodes dead" files
    lose 1 2
    scavenge --id 2
    expect_status 3
    expect_text "NOT saved: .*unrecoverable"
    expect_current scr.dataset.1
    expect_index 1

    two_steps "scr_scavenge meets files that lead elsewhere" files
    precious=$H5SCR_SHARED/precious.$SCR_JOB_ID
    echo precious >"$precious"
    victim=$(files_on 1 -name 'rank_*.dat' | grep 'dataset.2/' | head -n 1)
    cluster exec node1 ln -sf "$precious" "$victim"
    scavenge --id 2
    expect_status 0
    expect_text "$(basename "$victim")"
    expect_text "saved, .*1 rank\(s\) rebuilt"
    check "$([[ $(cat "$precious") == precious ]]; echo $?)" "what is outside of the cache was written to"
    expect_fetch 2
    start "scr_scavenge and a control directory that others can write to"
    export SCR_FLUSH=0
    app any 1 2 5000 --uneven
    cluster exec node2 chmod 777 "$H5SCR_NODE_LOCAL/root/scr.$SCR_JOB_ID"
    scavenge
    expect_status 0
    expect_text "node2: .*others can write to it"
    expect_text "saved, .*2 rank\(s\) rebuilt"
    ;;
  spare)
    # Three of four nodes are used; node3 is a spare, which has nothing of the job.
    start "a spare node is no loss"
    export SCR_FLUSH=0
    ranks=6
    app "0 1 2" 1 2 5000 --uneven
    expect_restart 0
    lose 1
    postrun
    expect_status 0
    expect_text "saved, .* 2 rank\(s\) rebuilt"
    expect_no_text "node3"
    postrun
    expect_status 0
    expect_text "nothing to save"

    start "a spare node does not make a loss bearable"
    export SCR_FLUSH=0
    ranks=6
    app "0 1 2" 1 2 5000 --uneven
    lose 0 2
    postrun
    expect_status 3
    expect_text "NOT saved: .*unrecoverable"
    expect_no_text "node3|try again"
    # Had the third node of the job gone, too, nobody could know what there was.
    lose 1
    postrun
    expect_status 1
    expect_text "no dataset was found, but 3 of 4 node\(s\) did not answer"
    expect_no_text "nothing to save"

    start "the job never ran"
    postrun
    expect_status 0
    expect_text "nothing to save: no node has the job's control directory '$H5SCR_NODE_LOCAL/root/scr.$SCR_JOB_ID'"
    expect_no_text "node[0-3]:"

    start "the list has other names than the nodes themselves"
    export SCR_FLUSH=0
    agent=$SCR_PREFIX/agent
    cat >"$agent" <<END
#!/bin/sh
exec $SCR_REMOTE_SHELL "\${1%-ib}" "\$2"
END
    chmod +x "$agent"
    app any 1 2 5000 --uneven
    lose 2
    SCR_REMOTE_SHELL=$agent SCR_NODELIST='node[0-3]-ib' postrun
    expect_status 0
    expect_text "no answer from node2-ib"
    expect_no_text "no answer from node[013]"
    expect_text "saved, .* 2 rank\(s\) rebuilt"
    expect_fetch 1
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
