#!/usr/bin/env bash
# Restarts that read the prefix directory where it is (SCR_FETCH_BYPASS, SCR_GLOBAL_RESTART), and the type of
# flush that a STORE line asks for.
#
#   in_place.sh BIN
source "$(dirname "$0")/lib.sh"

cached_files() { # of a dataset, on all nodes
  for i in 0 1 2 3; do cluster exec "node$i" find "$H5SCR_NODE_LOCAL" -path "*dataset.$1/*" -type f; done
}

start "SCR_FETCH_BYPASS=1: a restart reads the files in the prefix directory"
app any 2 2 5000
expect_restart 0
wipe_all
export SCR_FETCH_BYPASS=1
app any 0 2 5000 --check-only
expect_restart 2
expect_text "dataset 2 .*will be read in the prefix directory"
check "$([[ -z $(cached_files 2) ]]; echo $?)" "files were copied to the cache: $(cached_files 2)"
case_name="a damaged file is noticed, and the older checkpoint read"
flip_in_prefix ckpt.2/rank_3.1.dat 100
app any 0 2 5000 --check-only
expect_restart 1
unset SCR_FETCH_BYPASS

start "SCR_FETCH_BYPASS=1 with containers fetches as usual, and says so"
layout containers
app any 2 2 5000
wipe_all
export SCR_FETCH_BYPASS=1
app any 0 2 5000 --check-only
expect_restart 2
expect_text "dataset 2 .*is in containers, so its files cannot be read where they are"
expect_text "dataset 2 .*fetched from"
unset SCR_FETCH_BYPASS

start "SCR_GLOBAL_RESTART=1: what is in the cache only is flushed and read in the prefix directory"
SCR_FLUSH=0 app any 2 2 5000
expect_restart 0
expect_index 0
export SCR_GLOBAL_RESTART=1
app any 0 2 5000 --check-only
expect_restart 2
expect_text "dataset 2 .*flushed"
expect_text "dataset 2 .*will be read in the prefix directory"
unset SCR_GLOBAL_RESTART

start "STORE=... FLUSH=DAEMON holds for the datasets on that store"
printf 'STORE=%s COUNT=2 FLUSH=DAEMON\n' "$H5SCR_NODE_LOCAL" >"$SCR_PREFIX/store.conf"
export SCR_CONF_FILE=$SCR_PREFIX/store.conf
app any 1 1 3000
expect_restart 0
expect_text "no scr_transfer is at work"
expect_index 1
finish
