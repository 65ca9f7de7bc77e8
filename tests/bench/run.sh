#!/usr/bin/env bash
# All benchmarks. Each prints ratios to a baseline measured in the same run; times alone mean nothing on a
# shared machine.
#   tests/bench/run.sh BUILD_DIR
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
title() { printf '\n== %s\n' "$*"; }

title "machine: $(nproc) cores, $(awk '/model name/{sub(/.*: /,""); print; exit}' /proc/cpuinfo), $(awk '/MemTotal/{printf "%.0f GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r)"

title "hash: cost per entry, ratio to 1000 entries (aim: flat but for cache misses)"
"$build/bench/hash_bench" --benchmark_counters_tabular=true 2>/dev/null

title "sparse exchange, 2 partners a rank: ratio to MPI_Alltoallv"
for ranks in 4 8 16 32; do
  mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$build/bench/sparse_exchange_bench"
done
