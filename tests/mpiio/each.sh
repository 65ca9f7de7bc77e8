#!/usr/bin/env bash
# Processes of one node that open the same files each by itself write what they would write without h5scr.
#   each.sh BUILD
source "$(dirname "$0")/lib.sh"
mkdir "$work/plain"
plain 3 "$build/tests/mpiio_each" "$work/plain/file" >"$work/out" 2>&1 || die "without h5scr: $(cat "$work/out")"
routed 3 "$build/tests/mpiio_each" "$work/prefix/file" >"$work/out" 2>&1 || die "exit code $?: $(cat "$work/out")"
grep -qx DONE "$work/out" || die "no DONE: $(cat "$work/out")"
grep -qE '[1-9][0-9]* files routed' "$work/out" || die "nothing was routed: $(cat "$work/out")"
for name in new changed twice unclosed; do
  cmp "$work/plain/file.$name" "$work/prefix/file.$name" || die "'$name' differs: $(cat "$work/out")"
done
