#!/usr/bin/env bash
# An unmodified Python program with Debian's h5py (HDF5 1.10) and mpi4py, one file per process: 8 ranks on 4
# nodes, a node is killed, the program finds its newest complete checkpoint by glob on the spare node and comes
# to the same result as without h5scr.
#
#   h5py_mpi.sh BUILD
source "$(dirname "$0")/legacy_lib.sh"
heat=$scripts/heat_h5py_mpi.py
export H5SCR_CLUSTER_TIMEOUT=150 # eight Pythons take long to start on a busy machine

begin_client "the result without h5scr"
reference=$SCR_PREFIX
plain_client $python "$heat" 30 5 heat.h5
expect_status 0
expect_text "done: 30 steps" # Python writes the line end by itself

begin_client "with h5scr; the last file is closed by Python, after MPI has ended"
python_client "$heat" 30 5 heat.h5
expect_status 0
expect_text "done: 30 steps" # Python writes the line end by itself
expect_text "files routed .* datasets protected, [67] flushed"
same_as_reference

begin_client "a node is killed; restart on the spare from the rebuilt cache"
# The flush is slow, so that the newest checkpoint is in the cache only; and there is room for those that wait.
export SCR_FLUSH_ASYNC_BW=1 SCR_CACHE_SIZE=6
run_and_lose node2 "ckpt_0015.7.h5 ckpt_0015.0.h5" python_client "$heat" 30 5 heat.h5 100
unset SCR_FLUSH_ASYNC_BW SCR_CACHE_SIZE
python_client "$heat" 30 5 heat.h5
expect_status 0
expect_text "restarted from step (10|15|20|25)$"
expect_text "restored from the cache, 2 rank"
same_as_reference

begin_client "without libscr_mpiio each process protects its own files, and says so once"
out=$(cluster run --per-node 2 -x HDF5_DRIVER=scr -x "LD_PRELOAD=$build/lib/libscr_hdf5_legacy.so" -n 4 \
  $python "$heat" 20 10 heat.h5 2>&1)
status=$?
expect_status 0
expect_text "done: 20 steps" # Python writes the line end by itself
[[ $(grep -c "each process protects its own files only" <<<"$out") == 1 ]]
check $? "one warning that the files are not protected against the loss of a node"
[[ $(find . -name 'ckpt_*.h5' -size +100k | wc -l) == 8 ]]
check $? "eight checkpoint files in the prefix directory"
finish
