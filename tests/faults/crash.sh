#!/usr/bin/env bash
# A rank dies, or its file system fails, at the N-th file operation of h5scr (SCR_FAULT): the next run finds the
# newest complete checkpoint, or a newer one, with every byte.
#
#   crash.sh BIN checkpoint|move|rebuild SAMPLES [SEED]
#
# SAMPLES numbers N are spread over all operations of the step; SEED (default: random, printed) places them.
source "$(dirname "$0")/lib.sh"
what=$1 samples=$2 seed=${SEED:-${3:-$RANDOM}}
RANDOM=$seed
echo "seed $seed"
per_node_here=1 # ranks on each of four nodes
forward="0 1 2 3" backward="3 2 1 0"
order=$forward
turn=0

# The step under test, from a state with a complete checkpoint in the cache.
prepare() {
  case $what in
    move) if [[ $order == "$forward" ]]; then order=$backward; else order=$forward; fi ;;
    rebuild) wipe $((turn % 4)) ;;
  esac
  turn=$((turn + 1))
}

# The redundancy of what is written for a sample. It would hide what a checkpoint or a move loses, so these do
# without it every other time.
choose_scheme() { # sample
  export SCR_COPY_TYPE=XOR
  if [[ $what != rebuild ]] && (($1 % 2)); then SCR_COPY_TYPE=SINGLE; fi
}

step_under_test() {
  if [[ $what == checkpoint ]]; then
    app "$order" 2 2 3000 --record "$record"
  else
    app "$order" 0 2 3000 --check-only
  fi
}

# Operations of a rank in that step, those of SCR_Init included: sets `count` and `writes`.
measure() { # rank
  prepare
  SCR_FAULT="action=count-only,rank=$1,log=$SCR_PREFIX/operations" step_under_test
  expect_status 0
  count=$(grep -c . "$SCR_PREFIX/operations")
  writes=$(grep -c ' write ' "$SCR_PREFIX/operations")
  rm -f "$SCR_PREFIX/operations"
  check $((count > 10 ? 0 : 1)) "only $count operations were counted"
}

begin "a fault at the N-th operation of a $what"
per_node=$per_node_here ranks=$((4 * per_node_here))
app "$order" 2 2 3000 --record "$record"
expect_restart 0
faults=(kill kill kill eio kill tear enospc kill eio,repeat=all short)
for ((i = 0; i < samples; i++)); do
  rank=$((i % ranks))
  ((i < ranks)) && { measure $rank; counts[rank]=$count write_counts[rank]=$writes; }
  count=${counts[rank]}
  # The i-th of equal parts, somewhere inside it.
  n=$((1 + ((i * 1000 + RANDOM % 1000) * count) / (samples * 1000)))
  fault=${faults[i % ${#faults[@]}]}
  # These two strike at writes alone, and count them alone.
  [[ $fault == tear || $fault == short ]] && n=$((1 + n * (write_counts[rank] - 1) / count)) fault+=,op=write
  prepare
  choose_scheme $i
  newest=$(last_recorded)
  case_name="$what, rank $rank, n=$n of $count, $fault, $SCR_COPY_TYPE (seed $seed)"
  SCR_FAULT="action=$fault,n=$n,rank=$rank" step_under_test
  expect_harmless
  hit=$out
  ((newest < $(last_recorded))) && newest=$(last_recorded)
  choose_scheme $((i + 1))
  # What has no room in the cache goes to the prefix directory and says so.
  SCR_FETCH=0
  grep -q 'goes straight to' <<<"$hit" && SCR_FETCH=1
  app "$order" 1 2 3000 --record "$record"
  expect_newest "$newest"
  [[ ${VERBOSE:-} ]] && printf '%s\n%s\n' "$case_name" "$(head -n 3 <<<"$hit")"
done
finish
