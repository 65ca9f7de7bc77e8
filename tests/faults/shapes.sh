#!/usr/bin/env bash
# Uneven runs: unequal ranks per node, ranks without files, many files, empty files, very different sizes.
# Each loses a node.
source "$(dirname "$0")/lib.sh"

# Writes on some nodes, loses some of them, restarts.
survives() { # nodes lost-nodes files bytes option...
  local nodes=$1 lost=$2
  shift 2
  app "$nodes" 2 "$@"
  expect_restart 0
  # shellcheck disable=SC2086 # a list
  wipe $lost
  app "$nodes" 1 "$@"
  expect_restart 2
  expect_text "dataset 2 .*restored from the cache, [1-9][0-9]* rank"
}

slots=3
begin "3, 1, 1 and 1 ranks per node lose the full node"
ranks=6
survives "0:3 1:1 2:1 3:1" 0 2 5000
case_name="3, 1, 1 and 1 ranks per node lose a node with one rank"
wipe 2
app "0:3 1:1 2:1 3:1" 1 2 5000
expect_restart 3

begin "2 and 1 ranks on two nodes"
ranks=3
survives "0:2 1:1" 0 2 5000
wipe 1
app "0:2 1:1" 1 2 5000
expect_restart 3

begin "3, 1, 1 and 1 ranks per node with PARTNER and RS"
ranks=6
export SCR_COPY_TYPE=PARTNER
survives "0:3 1:1 2:1 3:1" 0 1 5000
export SCR_COPY_TYPE=RS SCR_SET_FAILURES=2
app "0:3 1:1 2:1 3:1" 1 1 5000
wipe 0 1
app "0:3 1:1 2:1 3:1" 1 1 5000
expect_restart 4
unset slots

begin "a rank without files, lost and not lost"
per_node=1 ranks=4
survives "0 1 2 3" 1 2 5000 --no-files 1
wipe 2
app "0 1 2 3" 1 2 5000 --no-files 1
expect_restart 3

begin "no rank has files"
per_node=1 ranks=4
survives "0 1 2 3" 1 0 5000

begin "200 files on each rank"
per_node=1 ranks=4
survives "0 1 2 3" 2 200 300

begin "very different sizes"
per_node=1 ranks=4
survives "0 1 2 3" 2 3 200000 --uneven
wipe 0
app "0 1 2 3" 1 3 200000 --uneven
expect_restart 3

begin "empty files"
per_node=1 ranks=4
survives "0 1 2 3" 3 3 5000 --empty
wipe 1
app "0 1 2 3" 1 3 5000 --empty
expect_restart 3

begin "all ranks on one node: SINGLE with one warning"
per_node=3 ranks=3
app "0" 1 1 5000
expect_restart 0
expect_text "WARNING.*one NODE group"
check "$([[ $(grep -c 'becomes SINGLE' <<<"$out") == 1 ]]; echo $?)" "the warning must come once"
app "0" 1 1 5000
expect_restart 1
finish
