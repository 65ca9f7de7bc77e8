#!/usr/bin/env bash
# All benchmarks. Each prints ratios to a baseline measured in the same run; times alone mean nothing on a
# shared machine.
#   tests/bench/run.sh BUILD_DIR
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
title() { printf '\n== %s\n' "$*"; }

title "machine: $(nproc) cores, $(awk '/model name/{sub(/.*: /,""); print; exit}' /proc/cpuinfo), $(awk '/MemTotal/{printf "%.0f GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r)"

title "hash: cost per entry, ratio to 1000 entries (\"look up same memory\" leaves cache misses out)"
"$build/bench/hash_bench" --benchmark_counters_tabular=true 2>/dev/null

title "sparse exchange, 2 partners a rank: ratio to MPI_Alltoallv"
for ranks in 4 8 16 32; do
  mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$build/bench/sparse_exchange_bench"
done

title "flush and fetch on the disk of the build folder, 4 processes: ratio to dd, cp and each other"
for what in "flush 8" "flush 64" "flush 256" "fetch 8" "fetch 64" "fetch-cold 8" "fetch-cold 64" small; do
  mpirun --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 -n 4 \
    "$build/bench/flush_bench" "$build" $what
done
title "a memory-bound loop during a background flush, one process and one on each core"
for ranks in 1 "$(nproc)"; do
  mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$ranks" "$build/bench/flush_bench" "$build" compute 256
done
title "index and rank2file: cost per entry, ratio to the smallest (aim: flat)"
"$build/bench/flush_bench" "$build" lists
title "scr_index: 1,000 datasets (aim: under a second of its own time)"
"$build/bench/index_bench" "$build/bin/scr_index" "$build"
title "scr_index --check of 1,000 HDF5 files in containers, with its progress: ratio to cksum of the same bytes"
bash "$here/index_check_bench.sh" "$build"
title "the HDF5 driver: ratio to sec2 on the same tmpfs"
bash "$here/vfd_bench.sh" "$build"

title "the hooks on collective calls, 2 ranks: ratio to a run without them"
bash "$here/hook_bench.sh" "$build"

if [ "$(id -u)" != 0 ]; then
  echo "The benchmarks on virtual nodes need root; left out, and so no table is made." >&2
  exit 1
fi
cluster=$here/../cluster/cluster

title "encode and rebuild on 4 light nodes: ratio to a parallel cp in the same storage"
H5SCR_CLUSTER_TIMEOUT=900 "$cluster" with 4 --light --size 4g --bind "$build" -- \
  cluster run --per-node 1 "$build/bench/redundancy_bench" 1 64 512

title "shared files of MPI-IO on 4 light nodes: ratio to plain files in memory, and to dd"
bash "$here/shared_bench.sh" "$build"

title "bookkeeping of a dataset (one empty file a rank), and its growth with oversubscribed ranks"
"$cluster" with 4 --light --slots 16 --bind "$build" -- bash -c '
  export SCR_PREFIX=$H5SCR_SHARED SCR_CNTL_BASE=$H5SCR_NODE_LOCAL SCR_CACHE_BASE=$H5SCR_NODE_LOCAL SCR_FLUSH=0
  cd "$SCR_PREFIX"
  for per in 1 2 4 16; do
    SCR_JOB_ID=$per cluster run --per-node $per "$1/bench/metadata_bench" "$H5SCR_NODE_LOCAL"
  done' _ "$build"
