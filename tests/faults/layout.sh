#!/usr/bin/env bash
# What may differ between the run that writes and the run that restarts: the order of nodes and the redundancy
# settings; and what may not: the number of ranks.
source "$(dirname "$0")/lib.sh"

begin "another number of ranks is refused, and nothing is lost"
app "0 1 2 3" 2 2 5000
expect_restart 0
slots=3
for ranks in 7 9; do
  case_name="a restart of 8 ranks with $ranks is refused"
  app "0:2 1:2 2:2 3:3" 1 2 5000
  expect_status 4
  expect_line "INIT FAILED"
  expect_text "dataset 2 \('step 2'\) of 8 ranks, but this run has $ranks.*with 8 ranks.*scr_"
  check "$([[ -n $(files_on 1 -path '*dataset.2/*') ]]; echo $?)" "the cached dataset was deleted"
done
case_name="the right number of ranks restarts after wrong ones"
ranks=8
app "0 1 2 3" 1 2 5000
expect_restart 2
unset slots

begin "ranks that move to other nodes find their files"
app "0 1 2 3" 1 2 5000
expect_restart 0
app "3 2 1 0" 1 2 5000
expect_restart 1
expect_text "dataset 1 .*restored from the cache, 0 rank"
case_name="ranks that move within their nodes and between them"
slots=3
app "1:1 0:2 3:3 2:2" 1 2 5000
expect_restart 2
expect_text "dataset 2 .*restored from the cache, 0 rank"
app "2 0 3 1" 1 2 5000
expect_restart 3
unset slots

begin "the redundancy settings may change"
export SCR_COPY_TYPE=XOR SCR_SET_SIZE=4
app "0 1 2 3" 1 2 5000
expect_restart 0
wipe 1
export SCR_COPY_TYPE=PARTNER SCR_SET_SIZE=2
app "0 1 2 3" 1 2 5000
expect_restart 1
wipe 2
export SCR_COPY_TYPE=RS SCR_SET_SIZE=8 SCR_SET_FAILURES=2
app "0 1 2 3" 1 2 5000
expect_restart 2
wipe 0 1
export SCR_COPY_TYPE=SINGLE
app "4 1 2 3" 1 2 5000
expect_restart 3

# Without redundancy, so that every file is the only copy.
on_shared_store() { # GROUP
  export SCR_CONF_FILE=$SCR_PREFIX/conf SCR_COPY_TYPE=SINGLE
  local store=$H5SCR_SHARED/store.$job node
  mkdir -p "$store"
  {
    for node in 0 1; do echo "GROUPS=node$node RACK=left"; done
    for node in 2 3; do echo "GROUPS=node$node RACK=right"; done
    echo "STORE=$store ${1:+GROUP=$1}"
    echo "CKPT=0 STORE=$store TYPE=SINGLE"
  } >"$SCR_CONF_FILE"
  export SCR_CACHE_BASE=$store
}
begin "a store that all nodes share: ranks that move leave their files where they are"
on_shared_store WORLD
app "0 1 2 3" 1 2 5000
expect_restart 0
app "3 2 1 0" 1 2 5000
expect_restart 1
app "2 0 3 1" 0 2 5000 --check-only
expect_restart 2
begin "a store that a group of nodes shares"
on_shared_store RACK
app "0 1 2 3" 1 2 5000
expect_restart 0
app "1 0 3 2" 1 2 5000
expect_restart 1
case_name="ranks move to another group, on what is the same storage after all"
app "2 3 0 1" 1 2 5000
expect_restart 2
app "1 3 2 0" 0 2 5000 --check-only
expect_restart 3
begin "a store that nodes share, which the configuration takes for each node's own, is refused"
on_shared_store
app "0 1 2 3" 1 2 5000
expect_line "INIT FAILED"
expect_text "storage that several nodes share.*GROUP=WORLD"
export SCR_CACHE_BASE=$H5SCR_NODE_LOCAL
finish
