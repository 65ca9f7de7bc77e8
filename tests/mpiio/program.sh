#!/usr/bin/env bash
# A program that checks itself and prints DONE, with h5scr.
#   program.sh BUILD RANKS [--expect PATTERN]... PROGRAM argument...      (the first argument is always FILE)
source "$(dirname "$0")/lib.sh"
ranks=$1
shift
expected=()
while [[ $1 == --expect ]]; do
  expected+=("$2")
  shift 2
done
program=("$@")
cd "$work/prefix" || exit 1
out=$(routed "$ranks" "${program[@]}" "$work/prefix/file" 2>&1) || die "exit code $?: $out"
grep -qx ' *DONE' <<<"$out" || die "no DONE: $out"
for pattern in "${expected[@]}"; do
  grep -qE "$pattern" <<<"$out" || die "no line '$pattern': $out"
done
