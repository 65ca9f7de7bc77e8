#!/usr/bin/env bash
# The prefix directory as users and scr_index see it: who may read what was flushed, how much is kept, and an
# index that is lost and made anew. Two nodes, two ranks on each.
#
#   prefix.sh BIN
source "$(dirname "$0")/lib.sh"

wipe_both() { wipe 0 1; }

# The names of the complete datasets in the index, newest first, the current one with a star.
expect_names() { # name,name...
  local names
  names=$("$scr_index" -p "$SCR_PREFIX" --json | python3 -c '
import json, sys
print(",".join(e["name"] + ("*" if e["current"] else "") for e in json.load(sys.stdin) if e["complete"]))')
  [[ $names == "$1" ]]
  check $? "the index has '$names' instead of '$1'"
}

# --- mode, group, access control list ------------------------------------------------------------------------

rights() { getfacl --absolute-names --numeric "$1" 2>&1 | grep -v '^# file:'; }

expect_same_rights() { # flushed direct
  [[ $(rights "$1") == "$(rights "$2")" ]]
  check $? "'$1' differs from '$2': $(diff <(rights "$1") <(rights "$2") | grep '^[<>]' | tr '\n' ' ')"
}

# Runs a checkpoint with this umask, and then writes a file in a folder without h5scr.
flush_with_umask() { # umask
  out=$(cluster run --per-node 2 -n 4 sh -c "umask $1; exec \"\$@\"" sh "$bin/native_app" 1 1 3000 2>&1)
  status=$?
  expect_restart 0
  cluster run -n 1 sh -c "umask $1; mkdir direct && echo x >direct/file"
}

for umask in 022 007; do
  start "umask $umask, and a directory that gives its group to what is made in it"
  chgrp 1 "$SCR_PREFIX" && chmod 2770 "$SCR_PREFIX"
  flush_with_umask $umask
  expect_same_rights ckpt.1 direct
  expect_same_rights ckpt.1/rank_0.0.dat direct/file
  expect_same_rights ckpt.1/rank_3.0.dat direct/file
  [[ $(stat -c %g ckpt.1/rank_3.0.dat) == 1 ]]
  check $? "the file must have the group of its directory"
done

start "a directory with a default access control list"
setfacl -m d:u:1234:rwx,d:g:1235:rx "$SCR_PREFIX"
check $? "the file system of the test has no access control lists"
flush_with_umask 077
expect_same_rights ckpt.1 direct
expect_same_rights ckpt.1/rank_1.0.dat direct/file

start "the same with containers"
chgrp 1 "$SCR_PREFIX" && chmod 2770 "$SCR_PREFIX"
layout containers
flush_with_umask 027
expect_same_rights .scr/scr.dataset.1/ctr.0.scr direct/file

# --- SCR_PREFIX_SIZE -----------------------------------------------------------------------------------------

for form in files containers; do
  start "SCR_PREFIX_SIZE=2 keeps the last two ($form)"
  layout $form
  ranks=4
  SCR_PREFIX_SIZE=2 app any 5 1 3000
  expect_restart 0
  expect_names "step 5*,step 4"
  expect_index 2
  left=$(find . -path './ckpt.[123]/*' -o -name 'scr.dataset.[123]')
  [[ -z $left ]]
  check $? "files of deleted datasets: $left"
  wipe_both
  app any 0 1 3000 --check-only
  expect_restart 5
done

# --- scr_index -----------------------------------------------------------------------------------------------

start "a dataset that was dropped is added again"
ranks=4
app any 2 1 3000
expect_restart 0
index --drop "step 2"
expect_status 0
expect_names "step 1"
wipe_both
app any 0 1 3000 --check-only
expect_restart 1
index --add scr.dataset.2
expect_status 0
expect_line "added 'step 2' (scr.dataset.2)"
index --current "step 2"
expect_names "step 2*,step 1"
wipe_both
app any 0 1 3000 --check-only
expect_restart 2
index --add scr.dataset.7
expect_status 1
expect_text "^scr_index: .*scr.dataset.7"

case_name="a lost index is made anew from the summaries"
rm .scr/index.scr
expect_names ""
index --build
expect_status 0
expect_line "2 dataset(s) added"
expect_index 2
index --build
expect_line "0 dataset(s) added"
wipe_both
app any 0 1 3000 --check-only
expect_restart 2

case_name="a damaged index is set aside and made anew, and the link still says where to restart"
index --current "step 1"
flip_in_prefix .scr/index.scr 30
cp .scr/index.scr damaged
index --list
expect_status 1
expect_text "index\.scr.*'scr_index --build'"
app any 0 1 3000 --check-only
expect_status 4
expect_text "index\.scr.*'scr_index --build'"
index --build
expect_status 0
expect_text "set aside as .*index\.scr\.corrupt\.1$"
expect_line "2 dataset(s) added"
check "$(cmp -s damaged .scr/index.scr.corrupt.1; echo $?)" "the damaged index is not kept as it was"
expect_names "step 2,step 1*"
index --current "step 2"

case_name="a dataset whose summary is damaged is left out"
rm .scr/index.scr
flip_in_prefix .scr/scr.dataset.2/summary.scr 40
index --build
expect_status 0
expect_text "left out: .*scr.dataset.2/summary.scr"
expect_line "1 dataset(s) added"
wipe_both
app any 0 1 3000 --check-only
expect_restart 1

case_name="two actions at once, and names that are unknown"
index --build --drop "step 1"
expect_status 2
index --drop "step 9"
expect_status 1
expect_text "there is no dataset 'step 9' in the index"
finish
