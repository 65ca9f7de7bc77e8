#!/usr/bin/env bash
# Programs of all kinds of habits: no hang, and the result that they have without h5scr. acts.c says what
# the acts mean.
#
#   behaviour.sh BUILD
source "$(dirname "$0")/lib.sh"

begin_acts "rank 0 alone reads an input deck and writes a log; others have no, one or two files"
plain_acts "@0 write deck.h5 5"
acts "@0 read deck.h5 5" "@0 write log.h5 6" barrier "@1 write one.h5 7" "@2 write a.h5 8" "@2 write b.h5 9" \
  barrier barrier "@0 append log.h5 more 10" allreduce
expect_done
expect_text "5 files routed .* 3 datasets protected, 3 flushed"
plain_acts "read deck.h5 5" "read log.h5 6" "read log.h5 10 more" "read one.h5 7" "read a.h5 8" "read b.h5 9"
expect_done
expect_no_notes

begin_acts "every rank reads every other's checkpoint: not yet sealed, sealed, flushed"
acts "write c.%r.h5 1%r" next "read c.%n.h5 1%n" "read c.%o.h5 1%o" barrier "read c.%n.h5 1%n" \
  "read c.%o.h5 1%o" barrier "write c2.%r.h5 2%r" barrier "read c.%o.h5 1%o" "read c2.%o.h5 2%o"
expect_done
expect_no_notes

begin_acts "the same after a restart with moved ranks, from the cache"
SCR_FLUSH_ASYNC_BW=1 acts "write c.%r.h5 1%r" barrier "@0 kill"
lose 0
acts "exists c.%r.h5" "read c.%r.h5 1%r" "read c.%o.h5 1%o" "read c.%n.h5 1%n" "append c.%r.h5 x 3%r" barrier \
  "read c.%o.h5 3%o x"
expect_done
expect_text "restored from the cache"
plain_acts "read c.%o.h5 1%o" "read c.%o.h5 3%o x"
expect_done
expect_no_notes

begin_acts "a file is closed after MPI_Finalize, another opened"
acts "hold late.%r.h5 1%r" "write sealed.%r.h5 2%r" finalize "put late.%r.h5 4%r" "close late.%r.h5" \
  "write later.%r.h5 3%r" "read sealed.%r.h5 2%r"
expect_done
expect_no_text "has ended"
plain_acts "read late.%r.h5 4%r" "read later.%r.h5 3%r" "read sealed.%r.h5 2%r"
expect_done
expect_no_notes

begin_acts "a file opened for changes before MPI_Finalize is changed after it"
acts "write u.%r.h5 1%r" "write w.%r.h5 1%r" barrier "update u.%r.h5" finalize "add u.%r.h5 x 2%r" "close u.%r.h5"
expect_done
plain_acts "read u.%r.h5 1%r" "read u.%r.h5 2%r x"
expect_done

for threads in funneled multiple; do
  begin_acts "a second thread writes while the first is in collective calls ($threads)"
  export ACTS_THREADS=$threads
  acts "thread write t1.%r.h5 1%r 200000" "thread write t2.%r.h5 2%r 200000" "thread read t1.%o.h5 1%o" \
    "thread write t3.%r.h5 3%r 200000" $(printf 'barrier allreduce %.0s' {1..150}) join barrier
  unset ACTS_THREADS
  expect_status 0
  plain_acts "read t1.%r.h5 1%r" "read t2.%r.h5 2%r" "read t3.%r.h5 3%r"
  expect_done
  expect_no_notes
done

begin_acts "only MPI_Allreduce and MPI_Bcast"
acts "while 6" "write s%s.%r.h5 %s" allreduce bcast allreduce again
expect_done
expect_text "24 files routed .* [3456] datasets protected"
plain_acts "while 6" "read s%s.%r.h5 %s" again
expect_done

begin_acts "no collective call at all, or only on parts of the world"
acts "write n.%r.h5 1%r" sub "write m.%r.h5 2%r" sub next
expect_done
expect_text "8 files routed .* 1 datasets protected, 1 flushed"
plain_acts "read n.%r.h5 1%r" "read m.%r.h5 2%r"
expect_done
acts "write n.%r.h5 3%r" dup "@0 print sealed" "@0 system grep -qs . .scr/index.scr"
expect_done
expect_text "1 datasets protected"

begin_acts "exit without MPI_Finalize"
acts "write e.%r.h5 1%r" barrier "write f.%r.h5 2%r" "exit 0"
expect_no_hang
acts "read e.%r.h5 1%r"
expect_done

begin_acts "MPI_Abort"
acts "write e.%r.h5 1%r" barrier "@1 abort" barrier
expect_no_hang
acts "read e.%r.h5 1%r"
expect_done
plain_acts "read e.%r.h5 1%r"
expect_done

begin_acts "a program that never touches HDF5 leaves nothing and says nothing"
acts barrier allreduce barrier
expect_done
[[ $out == DONE ]]
check $? "it must be quiet, but says: $out"
[[ -z $(ls) ]]
check $? "it must leave no file: $(ls)"

begin_acts "children, and commands that ranks start"
acts "write k.%r.h5 1%r" barrier "fork write child.%r.h5 5%r" "system h5dump -d value k.%r.h5 >dump.%r" \
  "system grep -q 'DATASET .value' dump.%r" "write l.%r.h5 3%r" "system h5ls -r l.%r.h5 >ls.%r" barrier
expect_done
plain_acts "read child.%r.h5 5%r" "read k.%r.h5 1%r" "read l.%r.h5 3%r"
expect_done
expect_no_notes

begin_acts "two programs in one launch"
acts "write p1.%r.h5 1" barrier "write p2.%r.h5 1" barrier : -n 2 "$clients/acts" "write q.%r.h5 2" barrier
expect_status 0
expect_no_text WRONG
expect_no_notes

finish
