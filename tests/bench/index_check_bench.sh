#!/usr/bin/env bash
# scr_index --check walks 1,000 HDF5 files in containers. Prints the progress it shows and the ratio of its time to
# that of a plain read of the containers.
#   index_check_bench.sh BUILD_DIR
set -euo pipefail
build=$1
work=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work"' EXIT
mkdir "$work/prefix" "$work/cache"
cd "$work/prefix"
export SCR_PREFIX=$PWD SCR_JOB_ID=bench SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=$work/cache
mapfile -t names < <(for i in $(seq 1000); do echo "f$i.h5"; done)
LD_PRELOAD=$build/lib/libscr_mpiio.so SCR_USE_CONTAINERS=1 HDF5_DRIVER=scr HDF5_PLUGIN_PATH=$build/plugin "$build/tests/write_tree" keep 1 "${names[@]}" 2> /dev/null
seconds() { # command...
  local start end
  start=$(date +%s.%N)
  "$@" > /dev/null
  end=$(date +%s.%N)
  awk "BEGIN { print $end - $start }"
}
plain=$(seconds cksum .scr/scr.dataset.1/ctr.*.scr)
walk=$(seconds "$build/bin/scr_index" --no-cache --check --progress)
awk "BEGIN { printf \"check of 1000 files: %.2f s, %.0f files/s, %.0f times a plain read\n\", $walk, 1000 / $walk, $walk / $plain }"
