#!/usr/bin/env bash
# Files of communicators with processes outside of the program that is served: MPI opens them, and nobody hangs.
#   mixed.sh BUILD
source "$(dirname "$0")/lib.sh"
program=$build/tests/mpiio_mixed
preload="LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$build/lib/libscr_mpiio.so"
limit=90

launch() { timeout -k 5 "$limit" "${MPIEXEC:-mpiexec}" "$@" >"$work/out" 2>&1; }
blocks() { # name letter...
  local file=$work/prefix/$1 letter expected=
  shift
  for letter; do expected+=$(head -c 1000 /dev/zero | tr '\0' "$letter"); done
  [[ $(cat "$file") == "$expected" ]] || die "'$file' is not what was written: $(cat "$work/out")"
}
check() {
  grep -qx DONE "$work/out" || die "no DONE: $(cat "$work/out")"
  grep -qE '1 files routed' "$work/out" || die "the file of the program by itself was not routed: $(cat "$work/out")"
  blocks file a b c
  blocks file.first a c
  blocks file.two a b
  rm -rf "$work/prefix" "$work/cache"
  mkdir "$work/prefix" "$work/cache"
}

# The second program without and with the preload.
launch -n 2 env "$preload" "$program" "$work/prefix/file" : -n 1 "$program" "$work/prefix/file" ||
  die "two programs: exit code $?: $(cat "$work/out")"
check
launch -n 2 env "$preload" "$program" "$work/prefix/file" : -n 1 env "$preload" "$program" "$work/prefix/file" ||
  die "two programs with h5scr: exit code $?: $(cat "$work/out")"
check
launch -n 2 env "$preload" "$program" "$work/prefix/file" spawn || die "spawn: exit code $?: $(cat "$work/out")"
check
