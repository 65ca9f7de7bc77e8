#!/usr/bin/env bash
# What `make demo` shows: a simulation on four virtual nodes loses one of them and goes on from its checkpoint.
#   h5examples/demo.sh BUILD_DIR
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../tests/cluster/cluster

if [ -z "${H5SCR_CLUSTER:-}" ] && [ "$(id -u)" = 0 ]; then
  exec "$cluster" with 5 --slots 2 --bind "$build" --timeout 120 -- bash "$0" "$build"
fi

. "$build/env.sh"
heat=$build/examples/heat_native
steps=120
result=$build/demo
mkdir -p "$result"
step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
say() { printf '   %s\n' "$*"; }

if [ -z "${H5SCR_CLUSTER:-}" ]; then
  say "Not root, so no virtual nodes: the ranks share one node, and a rank is killed instead of a node."
  shared=$(mktemp -d)
  trap 'rm -rf "$shared"' EXIT
  run() { mpirun --oversubscribe -n 4 "$heat" "$@"; }
else
  shared=$H5SCR_SHARED
  export SCR_CNTL_BASE=$H5SCR_NODE_LOCAL SCR_CACHE_BASE=$H5SCR_NODE_LOCAL SCR_JOB_ID=demo
  run() { cluster run --per-node 2 -n 8 "$heat" "$@"; }
fi
mkdir -p "$shared/undisturbed" "$shared/run"

step "1. The simulation, undisturbed (for comparison)"
export SCR_PREFIX=$shared/undisturbed
(cd "$SCR_PREFIX" && SCR_ENABLE=0 run $steps 10 "$shared/undisturbed.pgm" 2>/dev/null | tail -n 1)

step "2. The same with h5scr: 8 ranks on 4 nodes; every 10 steps a checkpoint to node-local memory, with XOR"
export SCR_PREFIX=$shared/run
cd "$SCR_PREFIX"
log=$shared/first.log
run $steps 10 "$shared/result.pgm" 60 > "$log" 2>&1 &
running=$!
for _ in $(seq 300); do grep -q "step 50" "$log" && break; sleep 0.1; done
cat "$log"

if [ -n "${H5SCR_CLUSTER:-}" ]; then
  step "3. A node dies: all its processes and its storage are gone"
  cluster kill node2
  wait $running && { say "the run should have failed"; exit 1; } || true
  cluster status
  step "4. Start again, on the nodes that are left and a spare one"
else
  step "3. The run dies"
  kill -9 $running
  wait $running 2>/dev/null || true
  step "4. Start again"
fi
SCR_DEBUG=1 run $steps 10 "$shared/result.pgm"

step "5. The same picture as without the failure?"
cmp "$shared/result.pgm" "$shared/undisturbed.pgm"
say "yes, byte for byte"
cp "$shared/result.pgm" "$result/heat.pgm"

step "6. What has reached the parallel file system (the last checkpoint, at the end of the run)"
scr_index
scr_index --verify-all

printf '\nThe picture of the field is in %s\n' "$result/heat.pgm"
