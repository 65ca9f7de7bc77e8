#!/usr/bin/env bash
# Files that a program deleted while they were only in the caches do not come back when scr_postrun saves the dataset that
# they are of. Two nodes with two ranks each. clients/acts.c says what the acts mean.
#
#   scavenge_deleted.sh BUILD [case...]
source "$(dirname "$0")/lib.sh"
export SCR_NODELIST='node[0-1]'

write_delete_save() { # layout
  begin_acts "scr_postrun: $1"
  export SCR_FLUSH=0
  [[ $1 == files ]] || export SCR_USE_CONTAINERS=1
  acts "write a.%r.h5 1" "write b.%r.h5 2" barrier "unlink a.%r.h5" "@0 unlink b.3.h5" barrier
  expect_done
  unset SCR_FLUSH
  out=$(cluster head timeout -k 5 120 scr_postrun 2>&1)
  status=$?
  expect_status 0
  expect_text "saved"
}
gone=("missing a.%r.h5" "refused a.%r.h5" "refused a.%o.h5" "@0 refused b.3.h5" "@3 missing b.3.h5" "@!3 read b.%r.h5 2")

case_files() {
  write_delete_save files
  plain_acts "${gone[@]}"
  expect_done
  acts "${gone[@]}" barrier
  expect_done
  expect_no_notes
}

case_containers() {
  write_delete_save containers
  acts "${gone[@]}" barrier
  expect_done
  wipe 0 1
  acts "${gone[@]}" barrier
  expect_done
}

case_newer() {
  begin_acts "scr_postrun: files that were written past h5scr since stay, deleted before or not"
  export SCR_FLUSH=0
  acts "write a.%r.h5 1" "write b.%r.h5 2" "write c.%r.h5 3" barrier "unlink a.%r.h5" barrier "@0 kill"
  unset SCR_FLUSH
  plain_acts "write a.%r.h5 7" "write b.%r.h5 8"
  expect_done
  out=$(cluster head timeout -k 5 120 scr_postrun 2>&1)
  status=$?
  expect_status 0
  expect_text "saved"
  plain_acts "read a.%r.h5 7" "read b.%r.h5 8" "read c.%r.h5 3"
  expect_done
}

run_cases "$@"
