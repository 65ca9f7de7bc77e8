#!/usr/bin/env bash
# Each redundancy scheme loses nodes, restarts with a spare one and finds every byte; one loss more than it
# bears is refused.
#
#   scheme.sh BIN SCHEME FAILURES RANKS_PER_NODE NODES some|every
#
# With "every", all subsets of FAILURES nodes (of NODES in use) are lost in turn, else a few.
source "$(dirname "$0")/lib.sh"
scheme=$1 failures=$2 ranks_per_node=$3 nodes=$4 how_many=$5

start() {
  export SCR_COPY_TYPE=$scheme SCR_SET_FAILURES=$failures
  per_node=$ranks_per_node
  ranks=$((per_node * nodes))
}

# All subsets of $1 numbers below $2, one a line, as "0 2".
subsets() {
  local count=$1 below=$2 mask i set n
  for ((mask = 1; mask < (1 << below); mask++)); do
    set="" n=0
    for ((i = 0; i < below; i++)); do
      if ((mask >> i & 1)); then set+=" $i" n=$((n + 1)); fi
    done
    ((n == count)) && echo "${set# }"
  done
}

# Which subsets to lose; the nodes are in a ring, so the first and the last are adjacent too.
losses() {
  if [[ $how_many == every || $failures == 1 && $scheme != RS ]]; then
    subsets "$failures" "$nodes"
  else
    case $failures in
      1) echo 2 ;;
      2) printf '%s\n' '0 1' '1 3' "0 $((nodes - 1))" ;;
      3) printf '%s\n' '0 1 2' "0 2 $((nodes - 1))" ;;
    esac
  fi
}

begin "$scheme, $failures failure(s), $ranks_per_node rank(s) per node: every loss it bears"
start
app any 2 2 5000
expect_restart 0
step=2
while read -r -a lost <&3; do
  # One of them is replaced by the spare node, which moves the ranks behind it; the others, and all if there
  # is no spare, come back empty.
  cluster revive all
  lose "${lost[@]}"
  for node in "${lost[@]:1}"; do cluster revive "node$node"; done
  ((nodes == $(cluster nodes | wc -l))) && cluster revive all
  app any 1 2 5000
  expect_restart $step
  expect_text "dataset $step .* restored from the cache, [1-9][0-9]* rank"
  step=$((step + 1))
done 3< <(losses)

begin "$scheme, $failures failure(s): one loss more is refused"
start
app any 2 2 5000
if ((nodes > failures + 1)); then
  mapfile -t lost < <(seq 0 "$failures")
  wipe "${lost[@]}"
  app any 1 2 5000 --check-only
  expect_restart 0
  expect_text "dataset 2 .*cannot be restored"
  for node in "${lost[@]}"; do
    expect_text "rank $((node * per_node)) \(on node$node\)"
    # Several ranks of a node are in several sets, and all of them are named.
    ((per_node == 1)) || expect_text "node$node \(rank $((node * per_node)), $((node * per_node + 1))"
  done
  # What is left of it is still there, and goes when a newer one is complete.
  check "$([[ -n $(files_on $((nodes - 1)) -path '*dataset.2/*') ]]; echo $?)" "the rest of dataset 2 was deleted"
  app any 1 2 5000
  expect_restart 0
  app any 1 2 5000
  expect_restart 1
  check "$([[ -z $(files_on $((nodes - 1)) -path '*dataset.2/*') ]]; echo $?)" "the rest of dataset 2 is still there"
fi
finish
