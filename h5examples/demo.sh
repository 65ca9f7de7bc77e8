#!/usr/bin/env bash
# What `make demo` shows: an unmodified parallel HDF5 program on four virtual nodes loses one of them, is
# started again by scr_run, and goes on from what the other nodes have of its last checkpoint.
# Without root there are no virtual nodes; then a rank is killed instead of a node.
#   h5examples/demo.sh BUILD_DIR [OUTPUT_DIR]
set -euo pipefail
build=$(cd "$1" && pwd)
result=${2:-$build/demo}
mkdir -p "$result"
result=$(cd "$result" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../tests/cluster/cluster

if [ -z "${H5SCR_CLUSTER:-}" ] && [ "$(id -u)" = 0 ]; then
  exec "$cluster" with 5 --slots 2 --bind "$build" --bind "$result" --timeout 180 -- bash "$0" "$build" "$result"
fi

. "$build/env.sh"
hdf5=$(cat "$build/deps/hdf5.root")
export PATH=$build/bin:$hdf5/bin:$PATH LD_LIBRARY_PATH=$hdf5/lib:${LD_LIBRARY_PATH:-}
heat=$build/examples/heat_parallel
steps=120 every=20
step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
say() { printf '   %s\n' "$*"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }
quietly() { grep -v -E '^--+$|^$|ORTE|HNP|Remote daemon|This is usually|connection to the node|the daemon itself|therefore will' || true; }

export SCR_LOG_ENABLE=1 SCR_LOG_SYSLOG_ENABLE=0 SCR_RUNS=3 SCR_JOB_ID=demo
export SCR_USE_CONTAINERS=1 SCR_CONTAINER_SIZE=300KB
if [ -z "${H5SCR_CLUSTER:-}" ]; then
  say "Not root, so there are no virtual nodes: all ranks share one node, and a rank is killed instead of a node."
  shared=$(mktemp -d) ranks=4 loss="a rank is killed" fast="a folder that stands for the memory of the node"
  trap 'rm -rf "$shared"' EXIT
  mkdir "$shared/node"
  export SCR_CNTL_BASE=$shared/node SCR_CACHE_BASE=$shared/node
  plain() { mpirun --oversubscribe -n $ranks "$heat" "$@"; }
  under_scr_run() { scr_run --wait 0 -- mpirun --oversubscribe -n $ranks "$heat" "$@"; }
  # The newest rank among the descendants of this script: other runs on this machine are none of its business.
  fail() {
    local rank
    rank=$(ps -e -o pid=,ppid=,comm= | awk -v top=$$ -v name="$(basename "$heat")" '
      { parent[$1] = $2; if ($3 == name) ranks[$1] = 1 }
      END {
        for (pid in ranks) {
          for (p = pid; p in parent && p != top; p = parent[p]) {}
          if (p == top && pid + 0 > newest) newest = pid + 0
        }
        if (newest) print newest
      }')
    [ -n "$rank" ] && kill -9 "$rank"
  }
else
  shared=$H5SCR_SHARED ranks=8 loss="a node dies: its processes and its memory are gone"
  fast="the memory of the nodes, protected by XOR"
  export SCR_CNTL_BASE=$H5SCR_NODE_LOCAL SCR_CACHE_BASE=$H5SCR_NODE_LOCAL
  export SCR_REMOTE_SHELL=$H5SCR_CLUSTER/bin/cluster-agent
  plain() { cluster run --per-node 2 -n $ranks "$heat" "$@"; }
  under_scr_run() {
    cluster head scr_run --outside --wait 0 -- mpirun --hostfile "$H5SCR_CLUSTER/hostfile" -n $ranks "$heat" "$@"
  }
  fail() { cluster kill node2; }
fi
mkdir -p "$shared/undisturbed" "$shared/run"

step "1. The simulation without h5scr, undisturbed (for comparison)"
say "heat_parallel: a 2-D heat equation; all ranks write one shared HDF5 file per checkpoint"
cd "$shared/undisturbed"
plain $steps $every heat.pgm 2>/dev/null | tail -n 1 | sed 's/^/   /'

step "2. The same program, not changed, with h5scr: scr_run -- mpirun -n $ranks heat_parallel $steps $every heat.pgm"
say "Checkpoints go to $fast, and in the background to the parallel file"
say "system, inside container files. In the middle of the run $loss."
export SCR_PREFIX=$shared/run
cd "$SCR_PREFIX"
log=$shared/output.txt
: >"$log"
# Ends by itself if the program ends before its checkpoint is there.
(
  until [ -e ckpt_0080.h5 ]; do
    [ -e "$shared/ended" ] && exit 1
    sleep 0.05
  done
  fail >/dev/null 2>&1
) &
failing=$!
started=$SECONDS
SCR_DEBUG=1 under_scr_run $steps $every heat.pgm 30 2>&1 | tee "$log" | quietly | sed 's/^/   /' ||
  { touch "$shared/ended"; die "the run under scr_run failed"; }
touch "$shared/ended"
wait "$failing" || die "no process was lost: the program ended before it could be killed"
restarted=$(grep -o -E 'restarted from step [0-9]+' "$log" | tail -n 1) ||
  die "the program was not restarted from a checkpoint"
say ""
say "The loss was survived: $restarted; with the restart the run took $((SECONDS - started)) s"

step "3. The same result as without the failure?"
cmp heat.pgm "$shared/undisturbed/heat.pgm" || die "the picture is another one than without the failure"
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
printf 'The demo took %d s.\n' "$SECONDS"
