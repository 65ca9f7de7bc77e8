#!/usr/bin/env bash
# scr_halt stops a running program at the right place, with its checkpoint in the prefix directory; scr_run does
# not start it again.
#
#   halt.sh BUILD [case...]
source "$(dirname "$0")/lib.sh"
heat=$examples/heat_hdf5

begin_halt() { # text
  begin_run "$1"
  export SCR_RUNS=5 SCR_FLUSH=100
  ranks=4
}

# Runs 200 steps with a checkpoint at every tenth, and the given scr_halt once the second is there.
halted_run() { # scr_halt-argument...
  halted_run_by scr_halt "$@"
}
halted_run_by() { # command...
  when test -e ckpt_0020.3.h5 -a -e ckpt_0020.0.h5 -- "$@"
  scr_run_mpi "$heat" 200 10 heat.pgm 50
  wait $waiter
}

last_step() { # the last checkpoint that the program wrote
  sed -n 's/^step \([0-9]*\): checkpoint written$/\1/p' <<<"$out" | tail -n 1
}

# It ended by itself, before its end, and the newest checkpoint is complete in the prefix directory. A halt is at
# the seal of a checkpoint, before the program says that it wrote it.
expect_halted() { # least-step most-step
  local newest
  expect_no_text "^done:"
  expect_story 1 '^launch start'
  newest=$(ls ckpt_*.0.h5 | tail -n 1)
  newest=${newest#ckpt_} newest=${newest%%.*}
  ((10#$newest >= $1 && 10#$newest <= $2))
  check $? "the last checkpoint must be of a step from $1 to $2, and is of $((10#$newest))"
  expect_current "ckpt_$newest"
  for ((r = 0; r < ranks; r++)); do expect_real "ckpt_$newest.$r.h5"; done
  expect_text "not started again|ended with status 0"
}

case_next() {
  begin_halt "scr_halt: at the next checkpoint"
  halted_run
  expect_status 0
  expect_halted 20 60
}

case_checkpoints() {
  begin_halt "scr_halt --checkpoints 3"
  halted_run --checkpoints 3
  expect_status 0
  expect_halted 40 80
  # Set before the run it is exact.
  begin_halt "scr_halt --checkpoints 3, before the run"
  scr_halt --checkpoints 3 >/dev/null
  scr_run_mpi "$heat" 200 10 heat.pgm
  expect_status 0
  expect_halted 30 30
  scr_run_mpi "$heat" 200 10 heat.pgm
  expect_status 125
  expect_text "not started: .*take it back with: scr_halt --unset"
  scr_halt --unset >/dev/null
  scr_run_mpi "$heat" 60 10 heat.pgm
  expect_status 0
  expect_text "restarted from step 30"
  expect_line "done: 60 steps"
}

# scr_halt with a time three seconds from now; the first second at which a checkpoint is the last goes to a file.
halt_after() {
  local now
  now=$(date +%s)
  echo $((now + 4)) >first_second
  scr_halt --after "@$((now + 3))"
}
halt_before() {
  local now
  now=$(date +%s)
  echo $((now + 3)) >first_second
  scr_halt --before "@$((now + 3600))" --seconds 3597
}

times_of() { # extended regular expression for story: milliseconds since the epoch
  story "$1" | sed 's/.*"time":"\([^"]*\)".*/\1/' | date -f - +%s%3N
}

# The program's own log says that it looked at the clock in time, or later, and that it did not go past a checkpoint at
# which it should have ended. (The clock that it looks at moves in steps of some milliseconds.)
expect_halted_at_first() { # second
  local halts ends steps=250
  mapfile -t halts < <(times_of '^halt once')
  mapfile -t ends < <(times_of '^checkpoint end')
  ((${#halts[@]} == 1 && ${#ends[@]} > 2 && halts[0] >= ends[-1]))
  check $? "a halt after the last of several checkpoints is in the log: '${halts[*]}' after '${ends[*]}'"
  ((halts[0] >= $1 * 1000))
  check $? "it ended at ${halts[0]} ms, before second $1"
  ((ends[-2] < $1 * 1000 + steps))
  check $? "the checkpoint before the last, of ${ends[-2]} ms, should have been the last from second $1 on"
}

case_after() {
  begin_halt "scr_halt --after"
  halted_run_by halt_after
  expect_status 0
  expect_halted 30 190
  expect_halted_at_first "$(cat first_second)"
}

case_before() {
  begin_halt "scr_halt --before, with --seconds"
  halted_run_by halt_before
  expect_status 0
  expect_halted 30 190
  expect_halted_at_first "$(cat first_second)"
}

case_seconds() {
  begin_halt "scr_halt --seconds before the end of the job"
  SCR_END_TIME=$(($(date +%s) + 3600))
  export SCR_END_TIME
  halted_run --seconds 3600
  expect_status 0
  expect_halted 20 60
  begin_halt "SCR_HALT_SECONDS, without scr_halt"
  SCR_END_TIME=$(($(date +%s) + 3600))
  export SCR_END_TIME SCR_HALT_SECONDS=3594
  scr_run_mpi "$heat" 400 10 heat.pgm 50
  expect_status 0
  expect_halted 10 390
}

case_immediate() {
  begin_halt "scr_halt --immediate: the program is ended, and its newest complete checkpoint is saved"
  # Checkpoints are far apart: the next one would be late. scr_postrun saves the one in the cache.
  when grep -q '"event":"checkpoint","phase":"end".*ckpt_0100' .scr/log.jsonl -- scr_halt --immediate
  scr_run_mpi "$heat" 10000 100 heat.pgm 20
  wait $waiter
  [[ $status != 0 ]]
  check $? "the program was ended, so its status cannot be 0"
  expect_text "ending the program: scr_halt of root"
  expect_text "not started again: scr_halt of root"
  expect_text "scr_postrun: a restart will begin with checkpoint 1 'ckpt_0100'"
  expect_halted 100 100
}

case_native() {
  begin_halt "scr_halt and a program that calls SCR_*"
  when grep -q 2 record -- scr_halt
  scr_run_mpi "$build/tests/native_app" 100 1 1000 --sleep 300 --record "$PWD/record" --tell "$PWD/told"
  wait $waiter
  expect_status 0
  expect_no_text "^DONE"
  # It ends inside SCR_Complete_output, so the last step is not in the program's own record.
  expect_current "step $(($(tail -n 1 record) + 1))"
  cmp -s record told
  check $? "what the program had in a buffer of stdio is lost"
  expect_story 1 '^launch start'
}

run_cases "$@"
