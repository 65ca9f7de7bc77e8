#!/usr/bin/env bash
# What libscr_mpiio costs a program that writes nothing: MPI_Barrier, MPI_Allreduce, messages and MPI-IO with and without it, in turns.
#   hook_bench.sh BUILD_DIR [ROUNDS]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/compare.sh"
build=$(cd "$1" && pwd) turns=${2:-7}
work=$(mktemp -d /dev/shm/hook-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/prefix" "$work/cache"
export SCR_PREFIX=$work/prefix SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=$work/cache

run() { (cd "$work/prefix" && mpirun --allow-run-as-root --oversubscribe "$@" -n 2 "$build/bench/hook_bench" 2> /dev/null); }
# shellcheck disable=SC2317
{
  plain() { run; }
  hooked() { run -x "LD_PRELOAD=$build/lib/libscr_mpiio.so"; }
}

rounds "$turns" "$work/times" plain=plain hooked=hooked
ratios "$work/times" plain hooked none barrier allreduce message file_call
