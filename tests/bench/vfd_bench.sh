#!/usr/bin/env bash
# The HDF5 driver against HDF5's own sec2, in turns, on one tmpfs: files routed to the cache, and files that
# pass through.
#   vfd_bench.sh BUILD_DIR [ROUNDS [MEGABYTES]]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/compare.sh"
build=$(cd "$1" && pwd) turns=${2:-7} megabytes=${3:-256}
work=$(mktemp -d /dev/shm/vfd-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/prefix" "$work/cache"

bench() { "$@" "$build/bench/vfd_bench" "$work/prefix" "$megabytes"; }
scr() {
  SCR_PREFIX=$work/prefix SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=$work/cache SCR_FLUSH=0 HDF5_DRIVER=scr \
    HDF5_PLUGIN_PATH=$build/plugin "$@"
}
# shellcheck disable=SC2317
{
  sec2() { bench env HDF5_DRIVER=sec2; }
  routed() { bench scr env SCR_JOB_ID=bench 2> /dev/null; rm -rf "$work/cache" "$work/prefix/.scr" "$work"/prefix/*; mkdir "$work/cache"; }
  passed() { bench scr env HDF5_DRIVER_CONFIG="ROUTE=/no/such/file TYPE=CKPT" 2> /dev/null; }
  off() { bench scr env SCR_ENABLE=0; }
  default() { bench scr env SCR_PREFIX=/nonexistent 2> /dev/null; }
}

rounds "$turns" "$work/times" sec2=sec2 routed=routed passed=passed off=off outside=default
for driver in routed passed off; do
  ratios "$work/times" sec2 $driver 1.02 contiguous-write contiguous-read chunked-write chunked-read
  ratios "$work/times" sec2 $driver 1.10 small-write small-read
done
echo "open and close of a file for reading:"
ratios "$work/times" sec2 passed 1.02 open-close
ratios "$work/times" sec2 off 1.02 open-close
ratios "$work/times" sec2 outside 1.02 open-close
ratios "$work/times" sec2 routed none open-close
