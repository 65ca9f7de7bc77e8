#!/usr/bin/env bash
# Shared files of MPI-IO on 4 light nodes, against plain files in memory (and, for the flush, dd on the disk).
#   shared_bench.sh BUILD_DIR [MIB [ROUNDS]]
set -euo pipefail
build=$(cd "$1" && pwd)
H5SCR_CLUSTER_TIMEOUT=1500 "$(dirname "$0")/../cluster/cluster" with 4 --light --size 4g --bind "$build" -- bash -c '
  build=$1 mib=$2 rounds=$3
  export SCR_CNTL_BASE=$H5SCR_NODE_LOCAL SCR_CACHE_BASE=$H5SCR_NODE_LOCAL SCR_CONF_FILE=$H5SCR_SHARED/rules
  echo "ROUTE=routed* TYPE=CKPT" > "$SCR_CONF_FILE"
  bench() { cluster run --per-node 1 -x "LD_PRELOAD=$build/lib/libscr_mpiio.so" "$build/bench/shared_bench" "$@" "$mib" "$rounds"; }
  # In memory, as the storage of the nodes is, and seen by all of them.
  export SCR_PREFIX=$H5SCR_CLUSTER/segments/bench
  cluster exec node0 mkdir "$SCR_PREFIX"
  for type in SINGLE XOR; do
    echo "-- SCR_COPY_TYPE=$type"
    SCR_FLUSH=0 SCR_COPY_TYPE=$type SCR_JOB_ID=$type bench write "$SCR_PREFIX"
  done
  export SCR_PREFIX=$H5SCR_SHARED/bench
  mkdir "$SCR_PREFIX"
  SCR_FLUSH=1 SCR_FLUSH_ASYNC=0 SCR_COPY_TYPE=SINGLE SCR_JOB_ID=flush bench flush "$SCR_PREFIX"
' _ "$build" "${2:-64}" "${3:-5}"
