#!/usr/bin/env bash
# What is left when a run is over, with different settings. acts.c says what the acts mean.
#
#   stored.sh BUILD [CASE...]
source "$(dirname "$0")/lib.sh"

all_nodes=(0 1 2 3 4)

case_containers() {
  begin_acts "containers: the markers stay, and are read from there when the cache is gone"
  export SCR_USE_CONTAINERS=1
  acts "write c1.%r.h5 1%r" barrier "write c2.%r.h5 2%r" barrier "@0 write log.h5 5" "sleep 300" barrier
  expect_done
  wipe "${all_nodes[@]}"
  SCR_JOB_ID=other acts "exists c2.%r.h5" "read c2.%r.h5 2%r" "read c1.%o.h5 1%o" "read log.h5 5" \
    "append c2.%r.h5 x 3%r" barrier "read c2.%o.h5 3%o x"
  expect_done
  mv "$SCR_PREFIX" "$SCR_PREFIX.moved"
  cd "$SCR_PREFIX.moved" || exit 1
  SCR_JOB_ID=third SCR_PREFIX=$PWD acts "read c1.%r.h5 1%r" "read c2.%o.h5 3%o x"
  expect_done
  with_driver h5dump -d value c1.3.h5 >dump.out 2>&1
  check $? "h5dump of a contained file: $(head -n 3 dump.out)"

  begin_acts "containers, and the run is killed as soon as they are there"
  export SCR_USE_CONTAINERS=1 SCR_FLUSH_ASYNC=0
  acts "write c1.%r.h5 1%r" barrier "@0 kill"
  wipe "${all_nodes[@]}"
  SCR_JOB_ID=other acts "exists c1.%r.h5" "read c1.%o.h5 1%o"
  expect_done
}

case_not_all_flushed() {
  begin_acts "every third checkpoint is flushed: markers of the others go with them"
  printf 'ROUTE=c*.h5 TYPE=CKPT\n' >scr.conf
  export SCR_CONF_FILE=$PWD/scr.conf SCR_FLUSH=3
  acts "while 5" "write c%s.%r.h5 %s" barrier again "read c5.%o.h5 5" "read c3.%o.h5 3" "missing c1.%r.h5" \
    "missing c4.%r.h5"
  expect_done
  plain_acts "missing c1.%r.h5" "missing c2.%r.h5" "read c3.%r.h5 3" "missing c4.%r.h5" "read c5.%r.h5 5"
  expect_done
  expect_no_notes

  begin_acts "nothing is flushed"
  printf 'ROUTE=c*.h5 TYPE=CKPT\n' >scr.conf
  export SCR_CONF_FILE=$PWD/scr.conf SCR_FLUSH=0
  acts "while 3" "write c%s.%r.h5 %s" barrier again "read c3.%o.h5 3" "missing c1.%r.h5"
  expect_done
  acts "read c3.%o.h5 3" "missing c2.%r.h5"
  expect_done
  wipe "${all_nodes[@]}"
  acts "missing c3.%r.h5"
  expect_done
  expect_no_notes
}

case_no_markers() {
  begin_acts "SCR_MARKERS=off"
  SCR_MARKERS=off SCR_FLUSH_ASYNC_BW=1 acts "write c.%r.h5 1%r" next next next next "missing c.%r.h5" \
    "read c.%o.h5 1%o" barrier "missing c.%r.h5" "read c.%o.h5 1%o" barrier "@0 kill"
  expect_no_text WRONG
  SCR_MARKERS=off acts "read c.%o.h5 1%o"
  expect_done
  plain_acts "read c.%r.h5 1%r"
  expect_done
  expect_no_notes
}

case_no_preload() {
  begin_acts "MPI without the preload: each process by itself, one warning, all files flushed"
  out=$(cluster run --per-node 2 -x HDF5_DRIVER=scr -x "HDF5_PLUGIN_PATH=$build/plugin" -n 4 "$clients/acts" \
    "write c1.%r.h5 1%r" barrier "read c1.%r.h5 1%r" "append c1.%r.h5 x 2%r" "write c2.%r.h5 3%r" 2>&1)
  status=$?
  expect_done
  [[ $(grep -c "each process protects its own files only" <<<"$out") == 1 ]]
  check $? "there must be one warning"
  plain_acts "read c1.%r.h5 1%r" "read c1.%r.h5 2%r x" "read c2.%r.h5 3%r"
  expect_done
  expect_no_notes

  begin_acts "nobody tells of renames: they move real files, so the last good one is never lost"
  out=$(SCR_FLUSH=10 cluster run --per-node 2 -x HDF5_DRIVER=scr -x "HDF5_PLUGIN_PATH=$build/plugin" -x SCR_FLUSH -n 4 \
    "$clients/acts" "write tmp.%r.h5 1%r" "rename tmp.%r.h5 restart.%r.h5" "read restart.%r.h5 1%r" "hold log.%r.h5 9" \
    "write tmp.%r.h5 2%r" "rename tmp.%r.h5 restart.%r.h5" "read restart.%r.h5 2%r" "missing tmp.%r.h5" barrier kill 2>&1)
  expect_no_text WRONG
  plain_acts "read restart.%r.h5 2%r" "missing tmp.%r.h5"
  expect_done
}

case_halt() {
  begin_acts "a halt condition ends the run at a seal, with its checkpoint flushed"
  SCR_HALT_EXIT=1 SCR_END_TIME=1 acts "while 9" "write c%s.%r.h5 %s" barrier again "@0 print not halted"
  expect_status 0
  expect_no_text "not halted|WRONG"
  plain_acts "read c1.%r.h5 1" "missing c2.%r.h5"
  expect_done
  expect_no_notes
}

run_cases "$@"
