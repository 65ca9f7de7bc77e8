#!/usr/bin/env bash
# An unmodified Python program with Debian's parallel h5py (HDF5 1.10), one shared file per checkpoint: 8 ranks on 4
# nodes, a node is killed, and the program goes on on the spare node, and on fewer ranks.
#
#   h5py_shared.sh BUILD
source "$(dirname "$0")/legacy_lib.sh"
heat=$scripts/heat_h5py_shared.py
export H5SCR_CLUSTER_TIMEOUT=150 # eight Pythons take long to start on a busy machine

begin_client "the result without h5scr"
reference=$SCR_PREFIX
plain_client $python "$heat" 30 5 heat.h5
expect_status 0
expect_text "done: 30 steps" # Python writes the line end by itself

begin_client "with h5scr: each checkpoint is a dataset, although mpi4py asks for MPI_THREAD_MULTIPLE"
python_client "$heat" 30 5 heat.h5
expect_status 0
expect_text "done: 30 steps" # Python writes the line end by itself
expect_text "files routed .* [67] datasets protected, [67] flushed"
same_as_reference

begin_client "a node is killed; restart on the spare from the rebuilt logs, then on fewer ranks"
echo "ROUTE=ckpt_*.h5 TYPE=OUTPUT" >rules # the result is rank 0's own, and such files cannot move to other ranks
export SCR_CONF_FILE=$PWD/rules
export SCR_FLUSH_ASYNC_BW=1 SCR_CACHE_SIZE=6
run_and_lose node2 "ckpt_0020.h5" python_client "$heat" 30 5 heat.h5 100
unset SCR_FLUSH_ASYNC_BW SCR_CACHE_SIZE
python_client "$heat" 25 5 heat.h5
expect_status 0
expect_text "restarted from step (15|20|25)$"
expect_text "restored from the cache, 2 rank"
ranks=6
python_client "$heat" 30 5 heat.h5
expect_status 0
expect_text "restarted from step 25$"
same_as_reference
unset SCR_CONF_FILE
finish
