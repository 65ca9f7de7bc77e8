#!/usr/bin/env bash
# Small cache devices: a dataset that does not fit beside the one before, one that fills
# the device although its like fitted, and files that ranks mark invalid or never write. The one before is
# never touched.
source "$(dirname "$0")/lib.sh"
small=$H5SCR_NODE_LOCAL/small

# Four ranks on four nodes whose cache devices hold 2 MiB.
start() {
  per_node=1 ranks=4
  export SCR_CACHE_BASE=$small
  local node
  for node in 0 1 2 3; do
    cluster exec node$node sh -c "umount $small 2>/dev/null; mkdir -p $small && mount -t tmpfs -o size=2m small $small"
  done
}

# The files of a dataset on all nodes.
files_of() { # dataset
  local node
  for node in 0 1 2 3; do
    cluster exec node$node find "$small" -path "*dataset.$1/*" -type f
  done
}

begin "two datasets do not fit: the second goes to the prefix directory"
start
app any 2 1 900000
expect_restart 0
expect_text "no room in '$small' for dataset 2 .*goes straight to '$SCR_PREFIX'"
expect_no_text '^FAILED'
for rank in 0 1 2 3; do
  size=$(stat -c %s "$SCR_PREFIX/ckpt.2/rank_$rank.0.dat" 2>/dev/null)
  check "$([[ $size == $((900000 + 37 * rank)) ]]; echo $?)" "ckpt.2/rank_$rank.0.dat in the prefix has ${size:-no} bytes"
done
check "$([[ -n $(files_of 1) ]]; echo $?)" "dataset 1 has left the cache"
SCR_FETCH=1 app any 0 1 900000 --check-only
expect_restart 2
expect_text "dataset 2 .*will be read in the prefix directory"
case_name="the next checkpoint after one that did not fit"
SCR_FETCH=1 app any 1 1 900000
expect_restart 2
SCR_FETCH=1 app any 0 1 900000 --check-only
expect_restart 3

begin "two datasets do not fit, SCR_CACHE_DELETE_FIRST=1: the first goes"
start
export SCR_CACHE_DELETE_FIRST=1
app any 2 1 900000
expect_restart 0
expect_no_text 'no room'
app any 1 1 900000
expect_restart 2
unset SCR_CACHE_DELETE_FIRST

begin "a dataset fills the device: dropped everywhere, the one before stays"
start
app any 3 1 60000 --big 2
expect_restart 0
expect_line "FAILED 2"
expect_no_text '^FAILED [13]'
expect_text "dataset 2 .*dropped"
check "$([[ -z $(files_of 2) ]]; echo $?)" "dataset 2 was not dropped everywhere"
app any 0 1 60000 --check-only
expect_restart 3
case_name="after a dataset that filled the device the one before is restarted from"
app any 2 1 60000 --big 5
expect_restart 3
expect_line "FAILED 5"
app any 0 1 60000 --check-only
expect_restart 4

begin "the redundancy data fills the device"
start
app any 1 1 30000
expect_restart 0
# On node2 there is room for the files of the next one, 1.5 MB, but not for 0.5 MB of parity.
cluster exec node2 dd if=/dev/zero of="$small/ballast" bs=1000 count=300 status=none
app any 1 1 30000 --big 2
expect_restart 1
expect_line "FAILED 2"
expect_text "rank 2 on node2: ERROR.*\.xor.*No space left"
app any 0 1 30000 --check-only
expect_restart 1

begin "one rank marks its files invalid"
start
app any 2 2 3000 --invalid 2
expect_restart 0
expect_line "FAILED 2"
expect_text "rank 1 on node1: .*dataset 2 .*invalid"
expect_text "dataset 2 .*dropped"
app any 0 2 3000 --check-only
expect_restart 1

begin "one rank registers a file and never writes it"
start
app any 2 2 3000 --unwritten 2
expect_restart 0
expect_line "FAILED 2"
expect_text "rank 1 on node1: .*never_written.*"
expect_text "dataset 2 .*dropped"
check "$([[ -z $(files_of 2) ]]; echo $?)" "dataset 2 was not dropped everywhere"
app any 0 2 3000 --check-only
expect_restart 1

begin "a rank dies between start and complete"
start
app any 3 2 3000 --die-at 3
check "$((status == 0 ? 1 : 0))" "the run must fail"
expect_harmless
app any 0 2 3000 --check-only
expect_restart 2

begin "the old idiom"
start
export SCR_CACHE_BASE=$H5SCR_NODE_LOCAL
app any 2 2 3000 --old-idiom
expect_restart 0
wipe 2
app any 1 2 3000 --old-idiom
expect_restart 2
finish
