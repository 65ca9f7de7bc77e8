#!/usr/bin/env bash
# Flush, loss of all caches, fetch: 8 ranks on 4 nodes, every byte compared by native_app itself.
#
#   cycle.sh BIN
source "$(dirname "$0")/lib.sh"

for form in files containers; do
  for async in 0 1; do
    start "flush to $form, SCR_FLUSH_ASYNC=$async, and fetch"
    layout $form
    export SCR_FLUSH_ASYNC=$async SCR_CACHE_SIZE=2
    app any 3 2 5000 --uneven
    expect_restart 0
    expect_text "dataset 3 .*flushed"
    expect_no_temporaries
    expect_index 3
    expect_current scr.dataset.3
    wipe_all
    app any 1 2 5000 --uneven
    expect_restart 3
    expect_text "dataset 3 .*fetched"
    expect_index 4
    expect_no_temporaries
  done

  case_name="the prefix directory of $form moves elsewhere"
  mv "$SCR_PREFIX" "$SCR_PREFIX.moved"
  export SCR_PREFIX=$SCR_PREFIX.moved
  cd "$SCR_PREFIX" || exit 1
  wipe_all
  app any 0 2 5000 --uneven --check-only
  expect_restart 4
done

case_name="after a fetch the redundancy data is in place: a lost node is rebuilt without the prefix directory"
wipe 2
SCR_FETCH=0 app any 0 2 5000 --uneven --check-only
expect_restart 4
expect_text "dataset 4 .*restored from the cache, 2 rank"

case_name="a link moved by hand says where to restart"
ln -sfn .scr/scr.dataset.2 "$SCR_PREFIX/scr.current"
wipe_all
app any 0 2 5000 --uneven --check-only
expect_restart 2
expect_current scr.dataset.2
case_name="SCR_CURRENT says where to restart"
wipe_all
SCR_CURRENT="step 1" app any 0 2 5000 --uneven --check-only
expect_restart 1
finish
