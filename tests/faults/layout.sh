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
expect_status 0
finish
