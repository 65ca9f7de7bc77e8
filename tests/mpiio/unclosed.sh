#!/usr/bin/env bash
# Files that a program has open at MPI_Finalize are afterwards as without h5scr.
#   unclosed.sh BUILD
source "$(dirname "$0")/lib.sh"
mkdir "$work/plain"
plain 3 "$build/tests/mpiio_unclosed" "$work/plain/file" >"$work/out" 2>&1 || die "without h5scr: $(cat "$work/out")"
routed 3 "$build/tests/mpiio_unclosed" "$work/prefix/file" >"$work/out" 2>&1 || die "exit code $?: $(cat "$work/out")"
grep -qx DONE "$work/out" || die "no DONE: $(cat "$work/out")"
grep -q "'.*/file' was not closed" "$work/out" || die "nobody was told: $(cat "$work/out")"
for name in file file.two file.closed; do
  cmp "$work/plain/$name" "$work/prefix/$name" || die "'$name' differs: $(cat "$work/out")"
done
