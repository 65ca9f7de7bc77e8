#!/usr/bin/env bash
# Files that are written again, passed on, renamed, deleted, or kept open. acts.c says what the acts mean.
#
#   versions.sh BUILD [CASE...]
source "$(dirname "$0")/lib.sh"

in_step=(next next next next) # with four ranks: all have come so far, without a collective call

case_baton() {
  begin_acts "a file is passed on from rank to rank, on one node and across nodes, within one window"
  acts "@0 write b.h5 1" next "@1 append b.h5 a1 11" next "@2 append b.h5 a2 12" next next "@3 append b.h5 a3 13" \
    next next "@0 append b.h5 a4 14" next next next next "read b.h5 13 a3" "read b.h5 14 a4" barrier "read b.h5 1" \
    "read b.h5 14 a4" barrier "@0 kill"
  expect_no_text WRONG
  acts "read b.h5 14 a4" "read b.h5 12 a2"
  expect_done
  expect_text "restart from the cache"
  plain_acts "read b.h5 1" "read b.h5 11 a1" "read b.h5 12 a2" "read b.h5 13 a3" "read b.h5 14 a4"
  expect_done
  expect_no_notes

  begin_acts "the same with a seal between"
  acts "@0 write b.h5 1" barrier "@1 append b.h5 a1 11" barrier "@2 append b.h5 a2 12" barrier "read b.h5 12 a2" \
    barrier "@0 append b.h5 a3 13" barrier "read b.h5 13 a3"
  expect_done
  plain_acts "read b.h5 1" "read b.h5 11 a1" "read b.h5 12 a2" "read b.h5 13 a3"
  expect_done
  expect_no_notes
}

case_rewritten() {
  begin_acts "restart.h5 is written anew each step, over a real file: the newest that was sealed is read"
  plain_acts "write restart.%r.h5 1000" "@0 write restart.h5 1000"
  SCR_CACHE_SIZE=6 SCR_FLUSH_ASYNC_BW=1 acts "read restart.%r.h5 1000" "while 3" "write restart.%r.h5 %s" \
    "@0 write restart.h5 %s" barrier "read restart.%o.h5 %s" "read restart.h5 %s" barrier again \
    "write restart.%r.h5 4" "@0 kill"
  expect_no_text WRONG
  expect_real restart.h5 restart.0.h5 restart.3.h5
  acts "read restart.%r.h5 3" "read restart.%o.h5 3" "read restart.h5 3"
  expect_done
  plain_acts "read restart.%r.h5 3" "read restart.h5 3"
  expect_done
  expect_no_notes

  begin_acts "the same, and a node is lost: what is rebuilt is as old as it was, so the newest stays"
  plain_acts "write restart.%r.h5 1000"
  SCR_CACHE_SIZE=6 SCR_FLUSH_ASYNC_BW=1 acts "while 4" "write restart.%r.h5 %s" barrier again "@0 kill"
  cluster kill node0
  cluster revive all
  acts "read restart.%r.h5 4" "read restart.%o.h5 4"
  expect_done
  expect_text "restored from the cache, 2 rank\(s\) rebuilt"
  plain_acts "read restart.%r.h5 4"
  expect_done
  expect_no_notes

  begin_acts "the newest version is flushed, and an older one is still in the cache"
  echo "ROUTE=restart.*.h5 TYPE=CKPT" >rules
  SCR_CONF_FILE=$PWD/rules SCR_FLUSH=3 SCR_FLUSH_ASYNC=0 SCR_CACHE_SIZE=6 acts "while 3" "write restart.%r.h5 %s" \
    barrier again "@0 kill"
  plain_acts "read restart.%r.h5 3"
  expect_done
  SCR_CONF_FILE=$PWD/rules SCR_FLUSH=3 acts "read restart.%r.h5 3" "read restart.%o.h5 3"
  expect_done
  plain_acts "read restart.%r.h5 3"
  expect_done
  expect_no_notes

  begin_acts "a real file that is newer than the cached one is read, and the flush leaves it"
  SCR_FLUSH_ASYNC_BW=1 acts "write n.%r.h5 1" barrier "@0 kill"
  rm -f n.0.h5 n.1.h5
  ranks=2 plain_acts "write n.%r.h5 7"
  acts "@0 read n.0.h5 7" "@3 read n.1.h5 7" "@2 read n.2.h5 1"
  expect_done
  plain_acts "@0 read n.0.h5 7" "@3 read n.1.h5 7" "@2 read n.2.h5 1"
  expect_done
}

case_renamed() {
  local sync
  for sync in next barrier; do
    begin_acts "written to a temporary name, then renamed over a real file ($sync between)"
    plain_acts "write restart.%r.h5 1000"
    acts "while 3" "write tmp.%r.h5 %s" $sync "rename tmp.%r.h5 restart.%r.h5" "missing tmp.%r.h5" \
      "read restart.%r.h5 %s" barrier "read restart.%o.h5 %s" barrier again
    expect_done
    plain_acts "read restart.%r.h5 3" "missing tmp.%r.h5"
    expect_done
    expect_no_notes
  done

  begin_acts "written to a temporary name, flushed into a container and out of the cache when the new name is sealed"
  SCR_USE_CONTAINERS=1 SCR_CACHE_SIZE=1 acts "while 3" "write tmp.%r.h5 %s" barrier "rename tmp.%r.h5 restart.%r.h5" \
    barrier "refused tmp.%r.h5" "refused tmp.%o.h5" "read restart.%o.h5 %s" barrier again
  expect_done
  SCR_USE_CONTAINERS=1 acts "refused tmp.%r.h5" "refused tmp.%o.h5" "read restart.%o.h5 3"
  expect_done
}

case_deleted() {
  begin_acts "a program that keeps its last two checkpoints; rank 0 deletes for all; the flush is late"
  SCR_CACHE_SIZE=6 SCR_FLUSH_ASYNC_BW=100KB acts "write c1.%r.h5 1" barrier "write c2.%r.h5 2" barrier "write c3.%r.h5 3" barrier "unlink c1.%r.h5" \
    "missing c1.%r.h5" "write c4.%r.h5 4" barrier "@0 unlink c2.0.h5" "@0 unlink c2.1.h5" "@0 unlink c2.2.h5" \
    "@0 delete c2.3.h5" barrier "missing c2.%r.h5" "refused c2.%n.h5" "write c4.%r.h5 5" "@0 unlink c4.0.h5" \
    "@0 write c4.0.h5 6" barrier
  expect_done
  plain_acts "missing c1.%r.h5" "missing c2.%r.h5" "read c3.%r.h5 3" "@!0 read c4.%r.h5 5" "@0 read c4.0.h5 6"
  expect_done
  expect_no_notes
}

case_deleted_and_killed() {
  begin_acts "files are deleted before they are flushed, and the run is killed: they do not come back"
  plain_acts "@0 write c2.0.h5 9"
  SCR_CACHE_SIZE=6 SCR_FLUSH_ASYNC_BW=1 acts "write c1.%r.h5 1" "write d.%r.h5 4" barrier "write c2.%r.h5 2" barrier \
    "unlink c1.%r.h5" "@0 unlink c2.0.h5" "@0 delete c2.3.h5" "rename d.%r.h5 e.%r.h5" barrier "@0 kill"
  expect_no_text WRONG
  acts "missing c1.%r.h5" "refused c1.%r.h5" "refused c1.%o.h5" "@0 refused c2.0.h5" "@1 refused c2.3.h5" \
    "@1 read c2.1.h5 2" "refused d.%r.h5" "read e.%r.h5 4" barrier
  expect_done
  expect_text "restart from the cache"
  plain_acts "missing c1.%r.h5" "missing d.%r.h5" "@0 missing c2.0.h5" "@0 missing c2.3.h5" "@1 read c2.1.h5 2" "@2 read c2.2.h5 2" \
    "read e.%r.h5 4"
  expect_done
  expect_no_notes
}

case_renamed_and_killed() {
  begin_acts "a sealed file is renamed, and the run is killed before the new name is sealed: the old one has it"
  SCR_CACHE_SIZE=6 SCR_FLUSH_ASYNC_BW=1 acts "write t.%r.h5 1%r" "write u.%r.h5 2%r" barrier "rename t.%r.h5 r.%r.h5" \
    "missing t.%r.h5" "refused t.%r.h5" "read r.%r.h5 1%r" "rename u.%r.h5 v.%r.h5" "write u.%r.h5 3%r" "read u.%r.h5 3%r" \
    "@0 kill"
  expect_no_text WRONG
  acts "read t.%r.h5 1%r" "refused r.%r.h5" "read u.%r.h5 2%r" "refused v.%r.h5" barrier "rename t.%r.h5 r.%r.h5" \
    "rename u.%r.h5 v.%r.h5" "write u.%r.h5 4%r" barrier "refused t.%r.h5" "read u.%r.h5 4%r"
  expect_done
  expect_text "restart from the cache"
  plain_acts "missing t.%r.h5" "read r.%r.h5 1%r" "read v.%r.h5 2%r" "read u.%r.h5 4%r"
  expect_done
  expect_no_notes
}

case_kept_open() {
  begin_acts "a log stays open and is flushed each step: kill -9 does not lose it, and others are sealed"
  acts "@0 hold log.h5 100" "while 3" "@0 add log.h5 s%s %s" "@0 flush log.h5" "write c%s.%r.h5 %s" barrier again \
    "@0 kill"
  expect_text "log.h5' is kept open and flushed"
  HDF5_USE_FILE_LOCKING=FALSE plain_acts "@0 read log.h5 100" "@0 read log.h5 1 s1" "@0 read log.h5 2 s2" \
    "@0 read log.h5 3 s3"
  expect_done
  acts "read c3.%r.h5 3"
  expect_done

  begin_acts "a file stays open and is never flushed: it does not keep others from being sealed"
  acts "@0 hold log.h5 100" "write c1.%r.h5 1" barrier "sleep 5100" "write c2.%r.h5 2" barrier barrier \
    "@0 print looked" "write c3.%r.h5 3" barrier "@0 add log.h5 x 5"
  expect_done
  expect_text "log.h5' stays open"
  expect_text "2 datasets protected, 2 flushed"
  plain_acts "read c1.%r.h5 1" "read c2.%r.h5 2" "read c3.%r.h5 3" "@0 read log.h5 5 x"
  expect_done
  expect_no_notes

  begin_acts "an older version of a file that is kept open now is still being flushed"
  SCR_FLUSH_ASYNC_BW=30KB acts "@0 write log.h5 1 20000" barrier "@0 hold log.h5 2" "@0 flush log.h5" barrier \
    "@0 put log.h5 3" "@0 flush log.h5" barrier "@0 put log.h5 4"
  expect_done
  plain_acts "@0 read log.h5 4"
  expect_done
  expect_no_notes
}

case_snapshots() {
  local verb
  for verb in hold latest; do
    begin_acts "SNAPSHOT=1 ($verb): a file that stays open is protected as it was at its last flush; a node is lost"
    printf 'ROUTE=s*.h5 TYPE=OUTPUT SNAPSHOT=1\n' >rules
    export SCR_CONF_FILE=$PWD/rules
    SCR_FLUSH_ASYNC_BW=1 acts "$verb s.%r.h5 1%r" "flush s.%r.h5" barrier "add s.%r.h5 x 2%r" "flush s.%r.h5" \
      "add s.%r.h5 y 3%r" "flush s.%r.h5" barrier "put s.%r.h5 5%r" "add s.%r.h5 z 4%r" "@0 kill"
    expect_no_text "WRONG|without protection"
    lose 0
    acts "read s.%r.h5 1%r" "read s.%r.h5 3%r y" "read s.%o.h5 2%o x" barrier
    expect_done
    expect_text "restored from the cache"
    plain_acts "read s.%r.h5 1%r" "read s.%r.h5 2%r x" "read s.%r.h5 3%r y"
    expect_done
    expect_no_notes

    begin_acts "SNAPSHOT=1 ($verb): others read the last flush, its own process what it writes; closed, it is whole"
    printf 'ROUTE=s*.h5 TYPE=OUTPUT SNAPSHOT=1\n' >rules
    export SCR_CONF_FILE=$PWD/rules
    acts "$verb s.%r.h5 1%r" "flush s.%r.h5" "${in_step[@]}" "read s.%o.h5 1%o" barrier "put s.%r.h5 2%r" \
      "add s.%r.h5 x 3%r" "${in_step[@]}" "read s.%o.h5 1%o" "${in_step[@]}" "read s.%r.h5 2%r" "flush s.%r.h5" \
      barrier "read s.%o.h5 2%o" "${in_step[@]}" "put s.%r.h5 4%r" "close s.%r.h5" barrier "read s.%o.h5 4%o" "read s.%o.h5 3%o x" \
      "write c.%r.h5 5%r" barrier
    expect_done
    expect_no_text "without protection"
    expect_text "3 datasets protected, 3 flushed"
    plain_acts "read s.%r.h5 4%r" "read s.%r.h5 3%r x"
    expect_done
    expect_no_notes
  done

  begin_acts "SNAPSHOT=1: deleted while it is open, renamed over, open at the end; a second file keeps none of them waiting"
  printf 'ROUTE=s*.h5 TYPE=OUTPUT SNAPSHOT=1\nROUTE=c*.h5 TYPE=CKPT\n' >rules
  export SCR_CONF_FILE=$PWD/rules
  acts "hold s.%r.h5 1%r" "hold s2.%r.h5 2%r" "hold s3.%r.h5 3%r" "flush s.%r.h5" "flush s2.%r.h5" "flush s3.%r.h5" \
    "write c.%r.h5 4%r" barrier "unlink s.%r.h5" "missing s.%r.h5" "put s2.%r.h5 5%r" "write s4.%r.h5 6%r" \
    "rename s4.%r.h5 s3.%r.h5" barrier "close s.%r.h5" "close s3.%r.h5" "read s3.%r.h5 6%r"
  expect_done
  expect_no_text "without protection"
  plain_acts "missing s.%r.h5" "read s2.%r.h5 5%r" "read s3.%r.h5 6%r" "read c.%r.h5 4%r"
  expect_done
  expect_no_notes
  unset SCR_CONF_FILE
}

run_cases "$@"
