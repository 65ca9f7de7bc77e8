#!/usr/bin/env bash
# Failure groups other than NODE; several stores and redundancy descriptors.
source "$(dirname "$0")/lib.sh"

begin "both nodes of a POWER group die together"
per_node=1 ranks=4
export SCR_CONF_FILE=$SCR_PREFIX/scr.conf
cat >"$SCR_CONF_FILE" <<END
GROUPS=node0 POWER=left
GROUPS=node1 POWER=left
GROUPS=node2 POWER=right
GROUPS=node3 POWER=right
GROUPS=node4 POWER=left
STORE=$H5SCR_NODE_LOCAL
CKPT=0 INTERVAL=1 GROUP=POWER STORE=$H5SCR_NODE_LOCAL TYPE=XOR SET_SIZE=8
END
app "0 1 2 3" 2 2 5000
expect_restart 0
wipe 0 1
app "0 1 2 3" 1 2 5000
expect_restart 2
expect_text "dataset 2 .*restored from the cache, 2 rank"
wipe 2 3
app "0 1 2 3" 1 2 5000
expect_restart 3

begin "a node without a GROUPS line"
export SCR_CONF_FILE=$SCR_PREFIX/scr.conf
per_node=1 ranks=4
printf '%s\n' 'GROUPS=node0 POWER=left' "STORE=$H5SCR_NODE_LOCAL" \
  "CKPT=0 GROUP=POWER STORE=$H5SCR_NODE_LOCAL TYPE=XOR" >"$SCR_CONF_FILE"
app "0 1 2 3" 2 2 5000
expect_status 4
expect_line "INIT FAILED"
expect_text "GROUPS=node1 POWER="

begin "two stores, descriptors by interval"
per_node=1 ranks=4
export SCR_CONF_FILE=$SCR_PREFIX/scr.conf SCR_CACHE_SIZE=9
cat >"$SCR_CONF_FILE" <<END
STORE=$H5SCR_NODE_LOCAL/a COUNT=9
STORE=$H5SCR_NODE_LOCAL/b COUNT=9
CKPT=0 INTERVAL=1 STORE=$H5SCR_NODE_LOCAL/a TYPE=SINGLE
CKPT=1 INTERVAL=3 STORE=$H5SCR_NODE_LOCAL/b TYPE=XOR
END
app "0 1 2 3" 4 1 5000
expect_restart 0
where() { # file-in-dataset-of-node1
  cluster exec node1 sh -c "cd $H5SCR_NODE_LOCAL && ls -d */root/scr.$SCR_JOB_ID/index.*/dataset.$1"
}
for id in 1 2 4; do
  check "$([[ $(where $id) == a/*index.0* ]]; echo $?)" "dataset $id is in '$(where $id)', not in store a"
done
check "$([[ $(where 3) == b/*index.1* ]]; echo $?)" "dataset 3 is in '$(where 3)', not in store b"
check "$(cluster exec node1 sh -c "ls $H5SCR_NODE_LOCAL/b/root/scr.$SCR_JOB_ID/index.1/dataset.3/*.xor" >/dev/null; echo $?)" \
  "dataset 3 has no XOR file"
case_name="after a loss the newest dataset that can be rebuilt is used"
wipe 2
app "0 1 2 3" 1 1 5000
expect_restart 3
expect_text "dataset 4 .*cannot be restored.*rank"

begin "what could not be rebuilt goes, without costing a dataset on another store"
per_node=1 ranks=4
export SCR_CONF_FILE=$SCR_PREFIX/scr.conf
cat >"$SCR_CONF_FILE" <<END
STORE=$H5SCR_NODE_LOCAL/a COUNT=9
STORE=$H5SCR_NODE_LOCAL/b COUNT=2
CKPT=0 INTERVAL=1 STORE=$H5SCR_NODE_LOCAL/a TYPE=SINGLE
CKPT=1 INTERVAL=3 STORE=$H5SCR_NODE_LOCAL/b TYPE=XOR
END
app "0 1 2 3" 5 1 5000
expect_restart 0
wipe 2
app "0 1 2 3" 1 1 5000 # dataset 6, on store b
expect_restart 3
for node in 0 2; do
  left=$(cluster exec node$node sh -c "cd $H5SCR_NODE_LOCAL && ls -d */root/scr.$SCR_JOB_ID/index.*/dataset.*" | sed 's/.*dataset.//' | sort | xargs)
  check "$([[ $left == "3 6" ]]; echo $?)" "node$node has the datasets '$left', not '3 6'"
done

begin "an id that no descriptor covers"
per_node=1 ranks=4
export SCR_CONF_FILE=$SCR_PREFIX/scr.conf
printf '%s\n' "STORE=$H5SCR_NODE_LOCAL" "CKPT=0 INTERVAL=2 STORE=$H5SCR_NODE_LOCAL TYPE=XOR" >"$SCR_CONF_FILE"
app "0 1 2 3" 1 1 5000
expect_status 4
expect_line "INIT FAILED"
expect_text "INTERVAL"
finish
