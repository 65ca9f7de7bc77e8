#!/usr/bin/env bash
# Processes that h5scr does not serve never get the bytes of a marker for those of the file, nor write into it.
#   unserved.sh BUILD
source "$(dirname "$0")/lib.sh"
program=$build/tests/mpiio_unserved
preload="LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$build/lib/libscr_mpiio.so"
file=$work/prefix/file
limit=90

launch() { timeout -k 5 "$limit" "${MPIEXEC:-mpiexec}" "$@" >"$work/out" 2>&1 || die "$*: exit code $?: $(cat "$work/out")"; }
check() { # what
  grep -qx DONE "$work/out" || die "$1: no DONE: $(cat "$work/out")"
  grep -q "'$file' cannot be opened: its data is in the cache of node" "$work/out" || die "$1: the reason is not said: $(cat "$work/out")"
}
begin() { rm -rf "$work/prefix" "$work/cache"; mkdir "$work/prefix" "$work/cache"; }
is_flushed() { # what ranks
  local expected
  expected=$(for ((i = 0; i < $2; i++)); do head -c 5000 /dev/zero | tr '\0' "$(printf "\\$(printf %o $((97 + i)))")"; done)
  [[ $(cat "$file") == "$expected" ]] || die "$1: the file was not flushed as it was written: $(cat "$work/out")"
}

# A run that is refused: the cache has files of three ranks.
export SCR_JOB_ID=unserved
SCR_FLUSH=0 launch -n 3 env "$preload" "$program" "$file" write
cp "$file" "$work/marker"
SCR_FLUSH=0 launch -n 2 env "$preload" "$program" "$file" refused
check "another number of ranks"
grep -q "files are opened as without h5scr" "$work/out" || die "the run was not refused: $(cat "$work/out")"
cmp "$file" "$work/marker" || die "the marker was written to"

# Flushed at the end only.
export SCR_FLUSH=100
if [[ ${1:-} == --programs ]]; then
  begin
  launch -n 2 env "$preload" "$program" "$file" first : -n 2 env "$preload" "$program" "$file" second
  check "two programs"
  is_flushed "two programs" 2
  begin
  launch -n 2 env "$preload" "$program" "$file" first : -n 1 "$program" "$file" bare
  check "a program without the preload"
  is_flushed "a program without the preload" 2
  begin
  launch -x "$preload" -n 2 "$program" "$file" spawn  # which children inherit
  check "spawned processes"
  is_flushed "spawned processes" 2
fi
