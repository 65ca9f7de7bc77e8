#!/usr/bin/env bash
# Background flushes by scr_transfer, one on each of four nodes: it finishes what a killed program began, the
# next run adopts it, also while the daemon still copies; without a daemon, or if it dies, the program copies.
#
#   daemon.sh TESTS BIN files|containers
source "$(dirname "$0")/../faults/lib.sh"
commands=$(cd "$1" && pwd) layout=$2
source "$(dirname "$0")/daemons.sh"
bytes=1000000   # of a file; two files a rank, so 16 MB in all
slow=1500000    # bytes per second of all: 11 s

start_case() { # text
  begin "$1 ($layout)"
  export SCR_FLUSH=1 SCR_FLUSH_ASYNC=1 SCR_FLUSH_TYPE=DAEMON SCR_CACHE_SIZE=3 SCR_COPY_TYPE=XOR
  unset SCR_FLUSH_ASYNC_BW SCR_USE_CONTAINERS SCR_CONTAINER_SIZE
  [[ $layout == containers ]] && export SCR_USE_CONTAINERS=1 SCR_CONTAINER_SIZE=3MB
  return 0
}

# How often the daemons of all nodes said this.
said() { cat "$SCR_PREFIX"/daemon.* | grep -c -- "$1"; }

wait_until() { # seconds command...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS >= end)) && return 1
    sleep 0.2
  done
}

all_copied() { (($(said 'copied dataset') == expected_transfers)); }
some_copying() { (($(said 'copying dataset') > $(said 'copied dataset'))); }

expect_complete() { # step...
  local step list
  list=$("$commands/scr_index" --prefix "$SCR_PREFIX" --json)
  for step; do
    python3 -c '
import json, sys
entries = json.loads(sys.argv[1])
sys.exit(0 if any(e["name"] == sys.argv[2] and e["complete"] for e in entries) else 1)' "$list" "step $step"
    check $? "step $step is not complete in the index"
  done
  "$commands/scr_index" --prefix "$SCR_PREFIX" --verify-all >"$SCR_PREFIX/verify" 2>&1
  check $? "scr_index --verify-all found damage: $(head -n 3 "$SCR_PREFIX/verify")"
}

expect_no_leftovers() {
  local left
  left=$(find "$SCR_PREFIX" -name '*.tmp' | head -n 3)
  [[ -z $left ]]
  check $? "temporary files are left: $left"
}

expected_transfers=8
[[ $layout == containers ]] && expected_transfers=4

start_case "the daemons copy for a program that lives"
start_daemons
app any 2 2 $bytes --sleep 1500
expect_restart 0
expect_no_text 'scr_transfer'
check "$(said ERROR)" "a daemon reported an error: $(cat "$SCR_PREFIX"/daemon.*)"
check $(($(said 'copied dataset') == 2 * expected_transfers ? 0 : 1)) "the daemons did not copy all"
expect_complete 1 2
expect_no_leftovers

start_case "the program is killed, the daemons finish, the next run adopts"
start_daemons
SCR_FLUSH_ASYNC_BW=$slow app any 2 2 $bytes --die-at 2
check $((status == 0 ? 1 : 0)) "the program was not killed"
check $(($(said 'copied dataset') < expected_transfers ? 0 : 1)) "the copy had ended before the program was killed"
wait_until 60 all_copied
check $? "the daemons did not finish: $(cat "$SCR_PREFIX"/daemon.*)"
[[ $("$commands/scr_index" --prefix "$SCR_PREFIX" --json) != *'step 1'* ]]
check $? "the index has a dataset that nobody completed"
app any 1 2 $bytes
expect_restart 1
expect_text "dataset 1 \('step 1'\) flushed"
expect_complete 1 2
expect_no_leftovers

start_case "the next run comes while the daemons still copy"
start_daemons
SCR_FLUSH_ASYNC_BW=$((slow / 3)) app any 2 2 $bytes --die-at 2
some_copying
check $? "no daemon copies any more"
app any 1 2 $bytes
expect_restart 1
expect_complete 1 2
expect_no_leftovers

start_case "a daemon is killed while it copies"
start_daemons
(
  wait_until 30 grep -qs 'copying dataset' "$SCR_PREFIX/daemon.node1"
  kill_daemon node1
) &
killer=$!
SCR_FLUSH_ASYNC_BW=$slow app any 1 2 $bytes
wait $killer
expect_restart 0
expect_text 'rank .* on node1: WARNING: no scr_transfer is at work'
expect_complete 1
expect_no_leftovers

start_case "no daemon was started"
app any 2 2 $bytes
expect_restart 0
check $(($(grep -c 'no scr_transfer is at work' <<<"$out") == 4 ? 0 : 1)) "expected one warning a node"
expect_complete 1 2
expect_no_leftovers
finish
