#!/usr/bin/env bash
# The driver scr by property and by name, with a communicator: the files are those of mpio, byte for byte; with the
# MPI preload they are routed, and without it they are not, which is said.
#   parallel_driver_test.sh BUILD_DIR
source "$(dirname "$0")/../mpiio/lib.sh"
export HDF5_PLUGIN_PATH=$build/plugin
program=$build/tests/parallel_user
cd "$work/prefix" || exit 1

plain 3 "$program" mpio plain.h5 > "$work/out" 2>&1 || die "mpio: $(cat "$work/out")"
for way in property name; do
  SCR_JOB_ID=$way routed 3 "$program" $way $way.h5 > "$work/out" 2>&1 || die "$way: $(cat "$work/out")"
  grep -qx DONE "$work/out" || die "$way: no DONE: $(cat "$work/out")"
  grep -qE "[1-9][0-9]* files routed" "$work/out" || die "$way: nothing was routed: $(cat "$work/out")"
  cmp plain.h5 $way.h5 || die "$way: another file than that of mpio"
  [[ ! -e $way.h5.gone ]] || die "$way: a deleted file is there"
done
SCR_JOB_ID=alone plain 3 "$program" name alone.h5 > "$work/out" 2>&1 || die "without the preload: $(cat "$work/out")"
grep -q "files of several processes are not protected: libscr_mpiio is not loaded" "$work/out" \
  || die "the missing preload is not said: $(cat "$work/out")"
cmp plain.h5 alone.h5 || die "without the preload: another file than that of mpio"
