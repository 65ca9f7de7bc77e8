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

# Settings count from MPI_Init on, so the environment must have them; they are never ignored in silence.
settings='SCR_FLUSH_ASYNC=0; ROUTE=*.h5 TYPE=OUTPUT'
SCR_JOB_ID=late routed 3 "$program" name late.h5 "$settings" > "$work/out" 2>&1 && die "late settings were ignored"
grep -q "h5scr is at work already, with other settings: .*HDF5_DRIVER_CONFIG" "$work/out" \
  || die "the way out is not said: $(cat "$work/out")"
export HDF5_DRIVER=scr HDF5_DRIVER_CONFIG=$settings
SCR_JOB_ID=early routed 3 "$program" name early.h5 "$settings" > "$work/out" 2>&1 \
  || die "settings in the environment: $(cat "$work/out")"
grep -qE "[1-9][0-9]* files routed" "$work/out" || die "settings: nothing was routed: $(cat "$work/out")"
cmp plain.h5 early.h5 || die "settings: another file than that of mpio"
