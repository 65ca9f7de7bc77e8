#!/usr/bin/env bash
# A run of one rank reads what several wrote together, from the cache and from containers; its own files are protected.
# Files of one process that it syncs again and again outlive it.
#   one_rank.sh BUILD
source "$(dirname "$0")/lib.sh"
file=$work/prefix/file
export SCR_JOB_ID=one

run() { # ranks what file
  out=$(routed "$1" "$build/tests/mpiio_one_rank" "$2" "$3" 7 2>&1) || die "'$*': exit code $?: $out"
  grep -qx DONE <<<"$out" || die "'$*': no DONE: $out"
}
expect() { grep -qE "$1" <<<"$out" || die "no line '$1': $out"; }
begin() {
  rm -rf "$work/prefix" "$work/cache"
  mkdir "$work/prefix" "$work/cache"
}
plain 3 "$build/tests/mpiio_one_rank" write "$work/expected" 7 >/dev/null

# In the cache; then the run of one rank flushes it.
export SCR_FLUSH=0
run 3 write "$file"
expect "1 datasets protected, 0 flushed"
run 1 read "$file"
unset SCR_FLUSH
run 1 read "$file"
cmp "$work/expected" "$file" || die "a run of one rank does not flush what several wrote: $out"

# In containers, with nothing in the cache.
begin
export SCR_USE_CONTAINERS=1
run 3 write "$file"
rm -rf "$work/cache"
mkdir "$work/cache"
run 1 read "$file"
unset SCR_USE_CONTAINERS

begin
run 1 write "$file"
expect "1 files routed .* 1 datasets protected, 1 flushed"
cmp "$work/expected" "$file" || die "the file of one rank differs: $out"

begin
! out=$(routed 2 "$build/tests/mpiio_one_rank" sync "$file" 7 2>&1) || die "nobody was killed: $out"
for rank in 0 1; do
  cmp "$work/expected" "$file.$rank" || die "a file that was synced did not outlive rank $rank: $out"
done
