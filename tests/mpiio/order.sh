#!/usr/bin/env bash
# The hint scr_order: what is seen by ranks that tell each other of their writes without MPI.
#   order.sh BUILD
source "$(dirname "$0")/lib.sh"
mkdir "$work/signals"
cd "$work/signals" || exit 1

run() { # order
  rm -f written read
  out=$(routed 2 "$build/tests/mpiio_order" "$work/prefix/$1" "$1" 2>&1) || die "$1: exit code $?: $out"
  grep -qx DONE <<<"$out" || die "$1: no DONE: $out"
}
run strict
grep -qx SEEN <<<"$out" || die "with scr_order=strict a write is seen when it returns: $out"
# If this fails because it is seen, the hint has no use any more.
run lazy
grep -qx "NOT SEEN" <<<"$out" || die "without the hint a small write is local until the rank communicates: $out"
