#!/usr/bin/env bash
# A flipped byte in any file that h5scr keeps on a node: noticed, repaired where the scheme allows it, refused
# where it does not, and never used to make another file.
source "$(dirname "$0")/lib.sh"

data='*/rank_*.dat'
map='filemap_*.scrinfo'
per_node_here=1

start() { # scheme [failures]
  export SCR_COPY_TYPE=$1 SCR_SET_FAILURES=${2:-2}
  per_node=$per_node_here
  ranks=$((4 * per_node))
  app any 2 2 20000
  expect_restart 0
}

# Damages a file of the newest dataset on a node and expects that the restart repairs it.
repaired() { # what step node offset find-argument...
  case_name="XOR repairs a flipped byte in $1"
  local step=$2
  shift 2
  damage "$@"
  app any 1 2 20000
  expect_restart "$step"
  expect_text "dataset $step .* restored from the cache, 1 rank"
}

begin "XOR repairs a flipped byte"
start XOR
repaired "a data file" 2 1 777 -path "$data"
repaired "the last byte of a data file" 3 2 -1 -path "$data"
repaired "parity" 4 0 -100 -name '*.xor'
repaired "the header of a redundancy file" 5 3 40 -name '*.xor'
repaired "a filemap" 6 1 60 -name "$map"
expect_text 'WARNING.*filemap.*count as lost'
repaired "the master filemap" 7 2 30 -name filemap.scrinfo
expect_text 'WARNING.*counts as lost'

begin "PARTNER repairs a flipped byte in a data file and in a copy"
start PARTNER
damage 1 777 -path "$data"
app any 1 2 20000
expect_restart 2
damage 2 -100 -name '*.partner'
app any 1 2 20000
expect_restart 3

begin "SINGLE refuses a flipped byte in a data file"
start SINGLE
damage 1 777 -path "$data"
app any 1 2 20000 --check-only
expect_restart 0
expect_text "dataset 2 .*cannot be restored.*rank 1"

begin "SINGLE refuses a flipped byte in a filemap"
start SINGLE
damage 1 60 -name "$map"
app any 1 2 20000 --check-only
expect_restart 0
expect_text "dataset 2 .*cannot be restored.*rank 1"

begin "XOR refuses a damaged survivor beside a lost node"
start XOR
damage 1 777 -path "$data"
before=$(cluster exec node2 sh -c "cat $H5SCR_NODE_LOCAL/root/scr.$SCR_JOB_ID/index.*/dataset.2/ckpt.2/*" | cksum)
wipe 3
app any 1 2 20000 --check-only
expect_restart 0
expect_text "dataset 2 .*cannot be restored"
expect_text "rank 1 \(on node1\).*(checksum|damaged|corrupt)"
expect_text "rank 3 \(on node3\)"
after=$(cluster exec node2 sh -c "cat $H5SCR_NODE_LOCAL/root/scr.$SCR_JOB_ID/index.*/dataset.2/ckpt.2/*" | cksum)
check "$([[ $before == "$after" ]]; echo $?)" "the files of an intact survivor have changed"
check "$([[ -z $(files_on 3 -path "$data") ]]; echo $?)" "files were made from a damaged survivor"

begin "RS with two failures repairs a damaged survivor beside a lost node"
start RS 2
damage 1 777 -path "$data"
wipe 3
app any 1 2 20000
expect_restart 2
expect_text "dataset 2 .* restored from the cache, 2 rank"

begin "a damaged file of a rank that moves to another node is repaired"
start XOR
damage 1 777 -path "$data"
app "3 2 1 0" 1 2 20000
expect_restart 2

begin "a file that is cut short or gone is repaired"
start XOR
file=$(files_on 1 -path "$data" | head -n 1)
cluster exec node1 truncate -s -1 "$file"
app any 1 2 20000
expect_restart 2
file=$(files_on 2 -path "$data" | head -n 1)
cluster exec node2 rm "$file"
app any 1 2 20000
expect_restart 3
finish
