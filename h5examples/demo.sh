#!/usr/bin/env bash
# What `make demo` shows: an unmodified parallel HDF5 program on four virtual nodes loses one of them, is
# started again by scr_run, and goes on from what the other nodes have of its last checkpoint.
#   h5examples/demo.sh BUILD_DIR
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../tests/cluster/cluster

if [ -z "${H5SCR_CLUSTER:-}" ] && [ "$(id -u)" = 0 ]; then
  exec "$cluster" with 5 --slots 2 --bind "$build" --timeout 180 -- bash "$0" "$build"
fi

. "$build/env.sh"
hdf5=$(cat "$build/deps/hdf5.root")
export PATH=$build/bin:$hdf5/bin:$PATH LD_LIBRARY_PATH=$hdf5/lib:${LD_LIBRARY_PATH:-}
heat=$build/examples/heat_parallel
steps=120 every=20
result=$build/demo
mkdir -p "$result"
step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
say() { printf '   %s\n' "$*"; }
quietly() { grep -v -E '^--+$|^$|ORTE|HNP|Remote daemon|This is usually|connection to the node|the daemon itself|therefore will' || true; }

export SCR_LOG_ENABLE=1 SCR_LOG_SYSLOG_ENABLE=0 SCR_RUNS=3 SCR_JOB_ID=demo
export SCR_USE_CONTAINERS=1 SCR_CONTAINER_SIZE=300KB
if [ -z "${H5SCR_CLUSTER:-}" ]; then
  say "Not root, so there are no virtual nodes: all ranks share one node, and a rank is killed instead of a node."
  shared=$(mktemp -d)
  trap 'rm -rf "$shared"' EXIT
  plain() { mpirun --oversubscribe -n 4 "$heat" "$@"; }
  under_scr_run() { scr_run --wait 0 -- mpirun --oversubscribe -n 4 "$heat" "$@"; }
  # The last child of the last child of this script's own scr_run: a rank.
  fail() {
    local process=$$ child
    while child=$(ps -o pid= --ppid "$process" | tail -n 1) && [ -n "$child" ]; do process=$child; done
    kill -9 $process
  }
else
  shared=$H5SCR_SHARED
  export SCR_CNTL_BASE=$H5SCR_NODE_LOCAL SCR_CACHE_BASE=$H5SCR_NODE_LOCAL
  export SCR_REMOTE_SHELL=$H5SCR_CLUSTER/bin/cluster-agent
  plain() { cluster run --per-node 2 -n 8 "$heat" "$@"; }
  under_scr_run() {
    cluster head scr_run --outside --wait 0 -- mpirun --hostfile "$H5SCR_CLUSTER/hostfile" -n 8 "$heat" "$@"
  }
  fail() { cluster kill node2; }
fi
mkdir -p "$shared/undisturbed" "$shared/run"

step "1. The simulation without h5scr, undisturbed (for comparison)"
say "heat_parallel: a 2-D heat equation; all ranks write one shared HDF5 file per checkpoint"
cd "$shared/undisturbed"
plain $steps $every heat.pgm 2>/dev/null | tail -n 1 | sed 's/^/   /'

step "2. The same program, not changed, with h5scr: scr_run -- mpirun -n 8 heat_parallel $steps $every heat.pgm"
say "Checkpoints go to the memory of the nodes, protected by XOR, and in the background to the parallel file"
say "system, inside container files. In the middle of the run a node dies: its processes and its memory are gone."
export SCR_PREFIX=$shared/run
cd "$SCR_PREFIX"
(
  for _ in $(seq 600); do [ -e ckpt_0080.h5 ] && break; sleep 0.05; done
  fail >/dev/null 2>&1
) &
SCR_DEBUG=1 under_scr_run $steps $every heat.pgm 30 2>&1 | quietly | sed 's/^/   /'
wait

step "3. The same result as without the failure?"
cmp heat.pgm "$shared/undisturbed/heat.pgm"
say "yes, the picture is the same, byte for byte"

step "4. What is in the prefix directory"
scr_index
scr_index --verify-all
say ""
say "ckpt_0120.h5 is only a marker; its data is inside containers. h5dump reads it there, through the driver:"
HDF5_DRIVER=scr h5dump -A -d field "ckpt_0120.h5" | head -n 12 | sed 's/^/   /'

cp heat.pgm "$result/heat.pgm"
scr_report --output "$result/report.html" >/dev/null
printf '\nThe picture of the field is in %s,\nthe story of the run, for a browser, in %s\n' "$result/heat.pgm" "$result/report.html"
