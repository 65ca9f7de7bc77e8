#!/usr/bin/env bash
# Programs of all kinds of habits: no hang, and the result that they have without h5scr. acts.c says what
# the acts mean.
#
#   behaviour.sh BUILD [CASE...]
source "$(dirname "$0")/lib.sh"

in_step=(next next next next) # with four ranks: all have come so far, without a collective call

case_few_files() {
  begin_acts "rank 0 alone reads an input deck and writes a log; others have no, one or two files"
  plain_acts "@0 write deck.h5 5"
  acts "@0 read deck.h5 5" "@0 write log.h5 6" barrier "@1 write one.h5 7" "@2 write a.h5 8" "@2 write b.h5 9" \
    barrier barrier "@0 append log.h5 more 10" allreduce
  expect_done
  expect_text "5 files routed .* 3 datasets protected, 3 flushed"
  plain_acts "read deck.h5 5" "read log.h5 6" "read log.h5 10 more" "read one.h5 7" "read a.h5 8" "read b.h5 9"
  expect_done
  expect_no_notes
}

case_read_others() {
  begin_acts "every rank reads every other's checkpoint: not yet sealed, sealed, flushed"
  acts "write c.%r.h5 1%r" "${in_step[@]}" "read c.%n.h5 1%n" "read c.%o.h5 1%o" barrier "read c.%n.h5 1%n" \
    "read c.%o.h5 1%o" barrier "write c2.%r.h5 2%r" barrier "read c.%o.h5 1%o" "read c2.%o.h5 2%o"
  expect_done
  expect_no_notes

  begin_acts "the same after a restart with moved ranks, from the cache"
  SCR_FLUSH_ASYNC_BW=1 acts "write c.%r.h5 1%r" barrier "@0 kill"
  lose 0
  acts "exists c.%r.h5" "read c.%r.h5 1%r" "read c.%o.h5 1%o" "read c.%n.h5 1%n" barrier "append c.%r.h5 x 3%r" barrier \
    "read c.%o.h5 3%o x"
  expect_done
  expect_text "restored from the cache"
  plain_acts "read c.%o.h5 1%o" "read c.%o.h5 3%o x"
  expect_done
  expect_no_notes
}

case_finalize() {
  begin_acts "files are open at MPI_Finalize, where HDF5 closes them; others are written later"
  acts "write u.%r.h5 1%r" "hold late.%r.h5 1%r" "add late.%r.h5 x 2%r" finalize "write later.%r.h5 3%r"
  expect_done
  plain_acts "read late.%r.h5 1%r" "read late.%r.h5 2%r x" "read later.%r.h5 3%r" "read u.%r.h5 1%r"
  expect_done
  expect_no_notes
}

case_threads() {
  local threads
  for threads in funneled multiple; do
    begin_acts "a second thread writes while the first is in collective calls ($threads)"
    export ACTS_THREADS=$threads
    acts "thread write t1.%r.h5 1%r 200000" "thread write t2.%r.h5 2%r 200000" "thread read t1.%r.h5 1%r" \
      "thread write t3.%r.h5 3%r 200000" $(printf 'barrier allreduce %.0s' {1..40}) join barrier
    unset ACTS_THREADS
    expect_done
    plain_acts "read t1.%r.h5 1%r" "read t2.%r.h5 2%r" "read t3.%r.h5 3%r"
    expect_done
    expect_no_notes
  done
}

case_collectives() {
  begin_acts "only MPI_Allreduce and MPI_Bcast"
  acts "while 6" "write s%s.%r.h5 %s" allreduce bcast allreduce again
  expect_done
  expect_text "24 files routed .* [3456] datasets protected"
  plain_acts "while 6" "read s%s.%r.h5 %s" again
  expect_done

  begin_acts "no collective call at all, or only on parts of the world; then one on a copy of it"
  acts "write n.%r.h5 1%r" sub "write m.%r.h5 2%r" sub next
  expect_done
  expect_text "8 files routed .* 1 datasets protected, 1 flushed"
  acts "write n.%r.h5 3%r" dup "write m.%r.h5 4%r" dup
  expect_done
  expect_text "2 datasets protected"
  plain_acts "read n.%r.h5 3%r" "read m.%r.h5 4%r"
  expect_done
}

case_ends() {
  begin_acts "exit without MPI_Finalize"
  acts "write e.%r.h5 1%r" barrier "write f.%r.h5 2%r" "exit 0"
  expect_no_hang
  acts "read e.%r.h5 1%r" "refused f.%r.h5"
  expect_done

  begin_acts "MPI_Abort"
  acts "write e.%r.h5 1%r" barrier "@1 abort" barrier
  expect_no_hang
  acts "read e.%r.h5 1%r"
  expect_done
  plain_acts "read e.%r.h5 1%r"
  expect_done
  expect_no_notes
}

case_other_drivers() {
  begin_acts "a rule is for a file that the program gives to another driver: one line for each process"
  ranks=2
  SCR_CONF_FILE=$PWD/rules acts "@0 core a.h5 1" "@0 core b.h5 2" "@1 write c.h5 3" barrier
  expect_done
  expect_no_text "not protected"
  printf 'ROUTE=[ab]*.h5 TYPE=CKPT\n' >rules
  SCR_CONF_FILE=$PWD/rules acts "@0 core a.h5 1" "@0 core b.h5 2" "@1 write b.%r.h5 3" barrier
  expect_done
  expect_text "'a.h5' is not protected, although ROUTE=\[ab\]\*.h5 is for it"
  expect_no_text "'b.h5' is not|'b.1.h5' is not"
  expect_text "1 files routed .* not routed: 2 by another driver of HDF5"
  ranks=4
  plain_acts "read a.h5 1" "read b.h5 2"
  expect_done

  begin_acts "the family driver goes past, unless its members have the default driver"
  ranks=2
  printf 'ROUTE=[fg]*.h5 TYPE=CKPT\n' >rules
  SCR_CONF_FILE=$PWD/rules acts "@0 family f 1" barrier
  expect_done
  expect_text "'f-%d.h5' is not protected, although ROUTE=\[fg\]\*.h5 is for it"
  expect_no_text "[1-9] files routed"
  SCR_CONF_FILE=$PWD/rules acts "@0 family-list g 2" barrier
  expect_done
  expect_no_text "not protected"
  expect_text "[2-9] files routed .* 1 datasets protected"
  h5repart -family_to_single f-%d.h5 whole_f.h5 && h5repart -family_to_single g-%d.h5 whole_g.h5
  check $? "h5repart joins the members"
  plain_acts "read whole_f.h5 1" "read whole_g.h5 2"
  expect_done
  ranks=4

  begin_acts "SWMR is refused for a routed file, which stays as it was; without locks it is said"
  acts "swmr s.%r.h5 1%r" barrier
  expect_done
  expect_text "SWMR refused"
  expect_no_text "SWMR begins"
  expect_text "is routed by h5scr, and a routed file cannot be read while it is written"
  HDF5_USE_FILE_LOCKING=FALSE acts "swmr t.%r.h5 2%r" barrier
  expect_done
  expect_text "WARNING: .*is routed by h5scr, and a routed file cannot be read while it is written"
  plain_acts "read s.%r.h5 1%r" "read t.%r.h5 2%r"
  expect_done
  expect_no_notes
}

case_names() {
  local elsewhere
  begin_acts "truncate() of a file that is in the cache makes a new version of it"
  acts "write t.%r.h5 1%r" "grow t.%r.h5 4096" barrier "read t.%r.h5 1%r" "grow t.%r.h5 8192" barrier "read t.%r.h5 1%r"
  expect_done
  expect_text "4 files routed|8 files routed"
  plain_acts "read t.%r.h5 1%r"
  expect_done
  expect_no_notes

  begin_acts "rename to a name that is not routed takes the data along"
  elsewhere=$(mktemp -d "$PWD.elsewhere.XXXXXX")
  acts "write a.%r.h5 1%r" "rename a.%r.h5 $elsewhere/a.%r.h5" "missing a.%r.h5" \
    "read $elsewhere/a.%r.h5 1%r" "write b.%r.h5 2%r"
  expect_done
  plain_acts "missing a.%r.h5" "read $elsewhere/a.%r.h5 1%r" "read b.%r.h5 2%r"
  expect_done
  expect_no_notes
  rm -r "$elsewhere"
}

case_settings() {
  begin_acts "HDF5_DRIVER_CONFIG counts from MPI_Init on"
  client -x "HDF5_DRIVER_CONFIG=ROUTE=c*.h5 TYPE=CKPT; SCR_COPY_TYPE=SINGLE" "$clients/acts" "write c.%r.h5 1%r" \
    "write d.%r.h5 2%r" barrier "read c.%r.h5 1%r"
  expect_done
  expect_text "4 files routed .* 1 datasets protected, 1 flushed .*not routed: 4 no ROUTE rule matches it"
  plain_acts "read c.%r.h5 1%r" "read d.%r.h5 2%r"
  expect_done
  client -x "HDF5_DRIVER_CONFIG=SCR_FLUSH=some" "$clients/acts" "@0 refused c.0.h5" barrier
  expect_done
  expect_text "SCR_FLUSH"
}

case_complete_close() {
  begin_acts "COMPLETE=CLOSE: a dataset is sealed at the close, without a collective call"
  printf 'ROUTE=c*.h5 TYPE=CKPT COMPLETE=CLOSE FILES=1\n' >rules
  SCR_CONF_FILE=$PWD/rules acts "write c1.%r.h5 1%r" "write c2.%r.h5 2%r" "write c3.%r.h5 3%r"
  expect_done
  expect_text "12 files routed .* 3 datasets protected, 3 flushed"
  plain_acts "read c1.%r.h5 1%r" "read c2.%r.h5 2%r" "read c3.%r.h5 3%r"
  expect_done
  expect_no_notes
}

case_no_hdf5() {
  begin_acts "a program that never touches HDF5 leaves nothing and says nothing"
  SCR_DEBUG=0 acts barrier allreduce barrier
  expect_done
  [[ $out == DONE ]]
  check $? "it must be quiet, but says: $out"
  [[ -z $(ls) ]]
  check $? "it must leave no file: $(ls)"
}

case_children() {
  begin_acts "children, and commands that ranks start"
  acts "write k.%r.h5 1%r" barrier "fork write child.%r.h5 5%r" "system $hdf5/bin/h5dump -d value k.%r.h5 >dump.%r" \
    "system grep -q DATASET dump.%r" "write l.%r.h5 3%r" "system $hdf5/bin/h5dump -H l.%r.h5 >head.%r" barrier
  expect_done
  plain_acts "read child.%r.h5 5%r" "read k.%r.h5 1%r" "read l.%r.h5 3%r"
  expect_done
  expect_no_notes
}

case_several_programs() {
  begin_acts "two programs in one launch: the first is served"
  acts "write p1.%r.h5 1" barrier "write p2.%r.h5 1" barrier "@5 write q.h5 1" : -n 2 \
    -x HDF5_DRIVER=scr -x "HDF5_PLUGIN_PATH=$build/plugin" -x "LD_PRELOAD=$build/lib/libscr_mpiio.so" "$clients/acts" \
    "write p1.%r.h5 1" barrier "write p2.%r.h5 1" barrier "@5 write q.h5 1"
  expect_status 0
  expect_no_text WRONG
  expect_text "of several programs in one launch only the first is served"
  expect_text "8 files routed .* 2 datasets protected, 2 flushed"
  ranks=6
  plain_acts "read p1.%r.h5 1" "read p2.%r.h5 1" "read q.h5 1"
  expect_done
  expect_no_notes

  begin_acts "two programs in one launch, of which one does not know of h5scr"
  acts "write p1.%r.h5 1" barrier : -n 2 -x LD_PRELOAD= -x HDF5_DRIVER= "$clients/acts" "write p1.%r.h5 1" barrier
  expect_status 0
  expect_no_text WRONG
  expect_text "4 files routed .* 1 datasets protected, 1 flushed"

  begin_acts "another program in the same job leaves the cache alone, and reads what is there"
  cp "$clients/acts" ./other
  SCR_FLUSH_ASYNC_BW=1 acts "write c.%r.h5 1%r" barrier "@0 kill"
  client ./other "write o.%r.h5 2%r" barrier "read o.%r.h5 2%r" "read c.%r.h5 1%r"
  expect_done
  expect_text "the cache holds datasets of another program \('acts', this is 'other'\)"
  expect_no_text "files routed"
  ranks=2
  printf 'ROUTE=*.h5 TYPE=CKPT\n' >rules
  SCR_CONF_FILE=$PWD/rules client ./other "write o.%r.h5 2%r" "@0 core past.h5 3" barrier
  expect_done
  expect_text "another program"
  expect_no_text "is not protected"
  ranks=4
  acts "read c.%r.h5 1%r" "read c.%o.h5 1%o" "read o.%r.h5 2%r"
  expect_done
  expect_text "restart from the cache"
  plain_acts "read c.%r.h5 1%r"
  expect_done
}

case_native() {
  begin_client "a program that calls SCR_* works with the preload as without"
  ranks=4
  export SCR_FLUSH=0
  client "$build/tests/native_app" 4 2 10000
  expect_status 0
  expect_line FRESH
  expect_no_text "in use by|files routed"
  client "$build/tests/native_app" 6 2 10000
  expect_restart 4
}

case_languages() {
  begin_acts "Fortran: its barriers are seen"
  client "$clients/fortran_client"
  expect_done
  expect_text "8 files routed .* 2 datasets protected, 2 flushed"
  plain_acts "read f1.%r.h5 1" "read f2.%r.h5 2"
  expect_done

  begin_acts "mpi4py: its barriers are seen"
  client /usr/bin/python3 "$tests/python_client.py" "$clients/libclient_files.so"
  expect_done
  expect_text "8 files routed .* 2 datasets protected, 2 flushed"
  plain_acts "read y1.%r.h5 1" "read y2.%r.h5 2"
  expect_done
  expect_no_notes
}

run_cases "$@"
