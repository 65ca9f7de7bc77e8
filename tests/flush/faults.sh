#!/usr/bin/env bash
# The N-th file operation of a rank in the prefix directory fails (SCR_FAULT), for sampled N of a whole run:
# the error is reported, what was flushed before can be fetched, the cache keeps its copy. Every other run fetches,
# and no trouble that may pass counts against a dataset.
#
#   faults.sh BIN SAMPLES [SEED]
source "$(dirname "$0")/lib.sh"
samples=$1 seed=${SEED:-${2:-$RANDOM}}
RANDOM=$seed
echo "seed $seed"
faults=(eio enospc short eio,repeat=all)
forms=(files containers)
declare -A counts # operations of a run, by rank, kind and layout

plan() { # action
  local operations='read|write|sync|rename|mkdir|syncdir|open|close'
  [[ $1 == short* ]] && operations='write'
  echo "action=$1,op=$operations,path=$SCR_PREFIX/*"
}

# EIO or a full disk says nothing of the data in the prefix directory.
expect_no_failed() {
  local text
  text=$("$scr_index" -p "$SCR_PREFIX" --no-cache | grep failed)
  check "$([[ -z $text ]]; echo $?)" "a dataset is marked as failed: $text"
}

start "operations in the prefix directory fail"
per_node=1 ranks=4
app any 1 2 3000 --record "$record"
expect_restart 0
for ((i = 0; i < samples; i++)); do
  rank=$((i % 3 == 0 ? 0 : i % ranks)) fault=${faults[i % 4]} form=${forms[i / 2 % 2]}
  layout $form
  purge=$((i / 2 % 2 == 0 ? i % 2 : 1 - i % 2)) # each fault and layout with and without
  key=$rank.${fault%%,*}.$form.$purge
  if [[ -z ${counts[$key]:-} ]]; then
    SCR_FAULT="$(plan "$fault" | sed 's/action=[^,]*\(,repeat=all\)\?/action=count-only/'),rank=$rank,log=$H5SCR_SHARED/operations.$job" \
      SCR_CACHE_PURGE=$purge app any 2 2 3000 --record "$record"
    expect_status 0
    counts[$key]=$(grep -c . "$H5SCR_SHARED/operations.$job")
    rm -f "$H5SCR_SHARED/operations.$job"
  fi
  n=$((1 + ((i * 1000 + RANDOM % 1000) * counts[$key]) / (samples * 1000)))
  case_name="rank $rank, n=$n of ${counts[$key]}, $fault, $form (seed $seed)"
  newest=$(last_recorded)
  SCR_FAULT="$(plan "$fault"),n=$n,rank=$rank" SCR_CACHE_PURGE=$purge app any 2 2 3000 --record "$record"
  expect_harmless
  expect_no_failed
  expect_text 'ERROR|WARNING|FAILED'
  expect_index any
  ((newest < $(last_recorded))) && ((i % 2)) && newest=$(last_recorded)
  if ((i % 2)); then
    app any 1 2 3000 --record "$record"
  else
    SCR_CACHE_PURGE=1 app any 1 2 3000 --record "$record"
  fi
  expect_newest "$newest"
  expect_no_temporaries
  expect_index any
done
finish
