#!/usr/bin/env bash
# A serial C program of HDF5 1.14, which is killed and started again: with the plug-in alone, and with the preload,
# with which its files wait in the cache for their flush.
#
#   serial.sh BUILD
source "$(dirname "$0")/legacy_lib.sh"
program=$examples/orbit_serial

driven() { # setting... program argument...
  out=$(HDF5_DRIVER=scr HDF5_PLUGIN_PATH=$build/plugin cluster exec node0 env "$@" 2>&1)
  status=$?
}
preloaded() { driven "LD_PRELOAD=$build/lib/libscr_mpiio.so" "$@"; }

begin_client "the result without h5scr"
plain_serial "$program" 1000 100
expect_status 0
result=$(grep '^done' <<<"$out")
reference=$SCR_PREFIX

begin_client "the plug-in alone: what is closed is at its name"
driven "$program" 1000 100 550
expect_status 137
expect_real ckpt_000500.h5
driven "$program" 1000 100
expect_status 0
expect_line "restarted from step 500"
expect_line "$result"
expect_text "\\b5 files routed"
same_as_reference

begin_client "with the preload: the newest checkpoint is found in the cache, before it is flushed"
preloaded SCR_FLUSH_ASYNC_BW=1 "$program" 1000 100 150
expect_status 137
expect_marker ckpt_000100.h5
driven h5dump -d /planets -s 3,0 -c 1,2 ckpt_000100.h5
expect_status 0
expect_text '\(3,0\): '
preloaded "$program" 1000 100
expect_status 0
expect_line "restarted from step 100"
expect_line "$result"
same_as_reference

begin_client "the cache is lost: the flushed ones are read"
preloaded "$program" 600 100
expect_status 0
cluster exec node0 rm -rf "$H5SCR_NODE_LOCAL/root"
preloaded "$program" 1000 100
expect_status 0
expect_line "restarted from step 600"
expect_line "$result"
same_as_reference

finish
