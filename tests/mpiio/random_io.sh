#!/usr/bin/env bash
# random_io with h5scr and on its model: the logs of all ranks and all files must be the same.
#   random_io.sh BUILD RANKS ROUNDS SEED... (0: one from the clock)
# Then with h5scr switched off on MPI's own library, which must be the same, too: the model is right, and a layer that
# is off does nothing. Without derived types, on some of which MPICH 4.0 by itself does not come back within minutes; with
# Open MPI what its ROMIO can do, for OMPIO loses bytes that ranks write in turns.
source "$(dirname "$0")/lib.sh"
ranks=$1 rounds=$2
shift 2

compare() { # folder other
  local file
  for file in "$work/$1"/*; do
    cmp "$file" "$work/$2/${file##*/}" || die "seed $seed: ${file##*/} differs between $1 and $2; first lines:
$(diff "$file" "$work/$2/${file##*/}" | head -n 5)"
  done
}

trial() { # folder launcher-function argument...
  mkdir -p "$work/$1"
  "$2" "$ranks" "$build/tests/random_io" --seed "$seed" --rounds "$rounds" "${@:3}" "$work/$1/f" "$work/$1/log" \
    >"$work/out" 2>&1 || die "seed $seed, $1: $(tail -n 20 "$work/out")"
}

# A layer that does nothing would be right, too.
expect_routed() {
  grep -qE '[1-9][0-9]* files routed' "$work/out" || die "seed $seed: nothing was routed: $(cat "$work/out")"
}

for seed; do
  [[ $seed != 0 ]] || seed=$(date +%s)
  echo "seed $seed"
  trial model plain --model 1
  trial prefix routed
  expect_routed
  compare model prefix
  rm -rf "$work/model" "$work/prefix" "$work/cache"/*  # a new run knows nothing of the one before

  basic=(--derived 0)
  [[ -z ${OMPI_ALLOW_RUN_AS_ROOT:-} || ${MPIEXEC:-} == *mpich* ]] || basic+=(--basic 1)
  export OMPI_MCA_io=romio321
  trial model plain --model 1 "${basic[@]}"
  export SCR_ENABLE=0
  trial prefix routed "${basic[@]}"
  unset SCR_ENABLE OMPI_MCA_io
  compare model prefix
  rm -rf "$work/model" "$work/prefix" "$work/cache"/*  # a new run knows nothing of the one before
done
