#!/usr/bin/env bash
# random_io with h5scr on virtual nodes, one rank on each, and on its model: the logs of all ranks and all flushed files
# must be the same. Accesses are across the borders of stripes, so that several homes have their extents.
#   random_io_nodes.sh BUILD ROUNDS SEED... (0: one from the clock)      inside `cluster with`
build=$(cd "$1" && pwd)
rounds=$2
shift 2
export OMPI_MCA_mpi_yield_when_idle=1 SCR_CNTL_BASE=$H5SCR_NODE_LOCAL SCR_CACHE_BASE=$H5SCR_NODE_LOCAL

die() { echo "FAILED: seed $seed: $*" >&2; exit 1; }

trial() { # folder argument... (of `cluster run`, then of random_io)
  local folder=$1 before=()
  shift
  while [[ $# -gt 0 && $1 == -x ]]; do before+=(-x "$2"); shift 2; done
  mkdir "$work/$folder"
  cluster run --per-node 1 "${before[@]}" "$build/tests/random_io" --seed "$seed" --rounds "$rounds" --spread 1 "$@" \
    "$work/$folder/f" "$work/$folder/log" >"$work/out" 2>&1 || die "$folder: $(tail -n 20 "$work/out")"
}

for seed; do
  [[ $seed != 0 ]] || seed=$(date +%s)
  echo "seed $seed"
  work=$H5SCR_SHARED/$seed
  mkdir "$work"
  trial model --model 1
  export SCR_PREFIX=$work/prefix SCR_JOB_ID=$seed
  trial prefix -x "LD_PRELOAD=$build/lib/libscr_mpiio.so"
  grep -qE '[1-9][0-9]* files routed' "$work/out" || die "nothing was routed: $(cat "$work/out")"
  for file in "$work"/model/*; do
    cmp "$file" "$work/prefix/${file##*/}" || die "${file##*/} differs; first lines:
$(diff -a "$file" "$work/prefix/${file##*/}" | head -n 5 | cut -c 1-200)"
  done
  rm -rf "$work"
  cluster exec all rm -rf "$H5SCR_NODE_LOCAL/root"
done
