#!/usr/bin/env bash
# Damage in the prefix directory: the fetch notices, says which file, and falls back to the older checkpoint;
# scr_index names it too. A damaged or lost container with parity is rebuilt.
#
#   damage.sh BIN
source "$(dirname "$0")/lib.sh"

# Two checkpoints in the prefix directory and none in the cache.
prepare() { # layout
  layout "$1"
  app any 2 2 3000
  expect_restart 0
  expect_index 2
  export SCR_CACHE_PURGE=1
}

# The restart finds the damage in a file of checkpoint 2 and takes checkpoint 1.
expect_fallback() { # file
  local text
  text=$("$scr_index" -p "$SCR_PREFIX" --verify "step 2" 2>&1)
  check "$(($? == 1 ? 0 : 1))" "scr_index --verify finds nothing"
  check "$(grep -qF "$1" <<<"$text"; echo $?)" "scr_index --verify does not name $1: $text"
  app any 0 2 3000 --check-only
  expect_restart 1
  expect_text "cannot fetch dataset 2 .*$1"
  text=$("$scr_index" -p "$SCR_PREFIX")
  check "$(grep -qE 'failed.*step 2' <<<"$text"; echo $?)" "the index does not say that the fetch failed: $text"
  # The fallback has made checkpoint 1 current.
  text=$("$scr_index" -p "$SCR_PREFIX" --clear-failed "step 2")
  check "$(grep -q "takes 'step 1'" <<<"$text"; echo $?)" "--clear-failed does not tell the restart: $text"
  check "$(grep -q "scr_index --current 'step 2'" <<<"$text"; echo $?)" "--clear-failed names no command: $text"
  "$scr_index" -p "$SCR_PREFIX" --current "step 2" >/dev/null
}

start "damage among files"
prepare files
for file in ckpt.2/rank_5.1.dat .scr/scr.dataset.2/rank2file.0.scr .scr/scr.dataset.2/summary.scr; do
  case_name="a flipped byte in $file"
  flip_in_prefix $file -20
  index --verify "step 2" --repair # which nothing can
  expect_status 1
  expect_text "^step 2: .*$file"
  expect_no_text "rebuilt"
  expect_fallback $file
  flip_in_prefix $file -20
done
case_name="a file that is one byte short"
cp -p ckpt.2/rank_0.0.dat kept
truncate -s -1 ckpt.2/rank_0.0.dat
expect_fallback ckpt.2/rank_0.0.dat
mv kept ckpt.2/rank_0.0.dat
case_name="after all is repaired, checkpoint 2 is fetched"
app any 0 2 3000 --check-only
expect_restart 2
unset SCR_CACHE_PURGE

start "damage in containers"
prepare containers
case_name="a flipped byte in a container"
flip_in_prefix .scr/scr.dataset.2/ctr.1.scr 777
app any 0 2 3000 --check-only
expect_restart 2
expect_text "1 container.* rebuilt from parity"
case_name="a lost container"
rm .scr/scr.dataset.2/ctr.0.scr
app any 0 2 3000 --check-only
expect_restart 2
expect_text "1 container.* rebuilt from parity"
expect_index 2
expect_no_temporaries
for name in ctr.1.scr ctr.parity.0.scr; do
  for damage in "flip_in_prefix .scr/scr.dataset.2/$name 777" "rm .scr/scr.dataset.2/$name"; do
    case_name="scr_index --repair after $damage"
    $damage
    index --verify "step 2"
    expect_status 1
    expect_text "^step 2: .*$name"
    index --verify "step 2" --repair
    expect_status 0
    expect_line "step 2: 1 container(s) rebuilt from parity"
    expect_text "^step 2: .*every byte is right"
    expect_index 2
    expect_no_temporaries
  done
done
case_name="two damaged containers are too much for one parity"
flip_in_prefix .scr/scr.dataset.2/ctr.0.scr 10
flip_in_prefix .scr/scr.dataset.2/ctr.2.scr 10
index --verify "step 2" --repair
expect_status 1
expect_text "^step 2: .*ctr\.0\.scr"
expect_text "^step 2: .*ctr\.2\.scr"
expect_text "^step 2: it cannot be repaired: .*more than parity bears"
app any 0 2 3000 --check-only
expect_restart 1
expect_text "cannot fetch dataset 2 .*ctr\.[02]\.scr"
case_name="a damaged index"
flip_in_prefix .scr/index.scr 30
app any 0 2 3000 --check-only
expect_status 4
expect_line "INIT FAILED"
expect_text "\.scr/index\.scr.*CRC32"
flip_in_prefix .scr/index.scr 30
app any 0 2 3000 --check-only
expect_restart 1
unset SCR_CACHE_PURGE
finish
