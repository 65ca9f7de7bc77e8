#!/usr/bin/env bash
# What becomes of shared files in programs that are not as they should be, and on nodes that are not.
#
#   shared_edges.sh BUILD [case...]     all cases, or those named
source "$(dirname "$0")/lib.sh"

case_forgotten() {
  begin_acts "a parallel HDF5 program that does not close its file: it is complete nevertheless, and protected"
  plain_client "$clients/forgotten" plain.h5
  expect_done
  client "$clients/forgotten" file.h5
  expect_done
  expect_text "1 files routed .* 1 datasets protected, 1 flushed"
  expect_same_file file.h5 plain.h5
  expect_no_notes
}

case_no_route() {
  begin_acts "nodes that cannot reach each other: files of several ranks are written as without h5scr"
  export SCR_SERVICE_INTERFACE=lo
  plain_client "$clients/shared_open" plain 3 0
  client "$clients/shared_open" file 3 0 sync
  unset SCR_SERVICE_INTERFACE
  expect_done
  expect_text "opened as without h5scr: nodes cannot reach each other"
  expect_same_file file plain
  expect_same_file file.2 plain.2
  expect_no_notes
}

case_conflict() {
  begin_acts "two nodes write one name at the same time: one version gets it, and none is lost"
  acts "@0 hold c.h5 1" next next "@2 hold c.h5 2" next next "@0 close c.h5" "@2 close c.h5" barrier
  expect_done
  expect_text "c.h5' was written by processes that did not have it open together"
  plain_acts "read c.h5 1" "read c.h5.scr-conflict.2 2"
  expect_done
}

case_deleted_and_made_again() {
  begin_acts "a file is deleted while it is flushed, and one of its name is made that lives at its name: it stays"
  SCR_FLUSH_ASYNC_BW=5000 acts "@0 write f.h5 1" barrier "@0 unlink f.h5" "@0 hold f.h5 2" "@0 flush f.h5" "@0 flush f.h5" \
    "@0 flush f.h5" barrier "@0 close f.h5"
  expect_done
  expect_text "f.h5' is kept open and flushed"
  plain_acts "@0 read f.h5 2"
  expect_done
}

case_calls() {
  begin_acts "every call of MPI-IO, and groups of ranks that write one file, on ranks of several nodes"
  client "$build/tests/mpiio_calls" "$PWD/file" XOR
  expect_done
  expect_text "other processes have it open for writing"
}

case_stale_rescue() {
  begin_acts "a dataset cannot be completed: its files go to their names, without what an older run left there"
  plain_client "$build/tests/mpiio_unclosed" plain
  expect_status 0
  head -c 40000 /dev/zero | tr '\0' x >file.closed.scr-rescue
  SCR_FAULT="op=write,path=*.xor,action=enospc,rank=3" client "$build/tests/mpiio_unclosed" file
  expect_status 0
  expect_text "written to their names, without protection"
  expect_same_file file.closed plain.closed
  expect_same_file file plain
  expect_same_file file.two plain.two
  expect_no_notes
}

case_log_not_found() {
  begin_acts "at a restart one log of a shared file cannot be offered: its bytes are not taken for holes"
  plain_client "$examples/heat_parallel" 30 10 plain.pgm
  rm -f ckpt_*
  export SCR_FLUSH=0
  client "$examples/heat_parallel" 20 10 heat.pgm
  expect_status 0
  SCR_FAULT="op=write,path=*export_*,action=enospc,rank=1" client "$examples/heat_parallel" 30 10 heat.pgm
  unset SCR_FLUSH
  expect_status 0
  expect_text "finding the shared files of dataset .* they are not read from there"
  expect_no_text "restarted from"
  expect_same_file heat.pgm plain.pgm
}

run_cases "$@"
