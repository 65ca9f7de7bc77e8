#!/usr/bin/env bash
# Hints from the file that ROMIO_HINTS names decide what becomes of a program's files.
#   hints.sh BUILD
source "$(dirname "$0")/lib.sh"
file=$work/prefix/file.closed

run() { # hint-line... : the files of a program that gives no hints
  rm -rf "$work/prefix" "$work/cache"
  mkdir "$work/prefix" "$work/cache"
  printf '%s\n' "$@" >"$work/hints"
  out=$(ROMIO_HINTS=$work/hints routed 2 "$build/tests/mpiio_unclosed" "$work/prefix/file" 2>&1) || die "exit code $?: $out"
}
expect() { grep -qE "$1" <<<"$out" || die "no line '$1' with '$(cat "$work/hints")': $out"; }
never() { ! grep -qE "$1" <<<"$out" || die "a line '$1' with '$(cat "$work/hints")': $out"; }

run "scr_route 0"
expect "0 files routed .* not routed: 3 a hint of MPI-IO says so"
[[ -s $file ]] || die "a file that is not routed is at its name"

# No rule is for these files.
cat >"$work/conf" <<'CONF'
ROUTE=*.other TYPE=CKPT
CONF
export SCR_CONF_FILE=$work/conf
run "# nothing"
never "[1-9] files routed"
run "scr_route 1"
expect "3 files routed .* 1 datasets protected"
unset SCR_CONF_FILE

# Not every checkpoint is flushed, but this one.
export SCR_FLUSH=0
run "scr_flush 0"
never "is in force"
expect "1 datasets protected, 0 flushed"
[[ ! -s $file || $(head -c 4 "$file" | tail -c 3) == HDF ]] || die "it was flushed"
run "scr_flush 1"
expect "1 datasets protected, 1 flushed"
[[ $(head -c 1 "$file") == a ]] || die "it was not flushed"
