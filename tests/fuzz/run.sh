#!/usr/bin/env bash
# Runs every fuzzer of a fuzz build for some seconds, starting from the kept corpus.
#   tests/fuzz/run.sh FUZZ_BUILD_DIR SECONDS
# New inputs go to FUZZ_BUILD_DIR/corpus; copy what is worth keeping into tests/fuzz/corpus. Exits 1 if
# one of them crashes; the input that did it is named.
set -euo pipefail
build=$1
seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
shopt -s nullglob
fuzzers=("$build"/fuzzers/*_fuzzer)
[ ${#fuzzers[@]} -gt 0 ] || { echo "fuzz: no fuzzers in $build; build them with 'make fuzzers'" >&2; exit 1; }
failed=0
for fuzzer in "${fuzzers[@]}"; do
  name=$(basename "$fuzzer" _fuzzer)
  mkdir -p "$build/corpus/$name" "$here/corpus/$name"
  log=$build/corpus/$name.log
  if "$fuzzer" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=10 -max_len=65536 \
      -artifact_prefix="$build/$name-" "$build/corpus/$name" "$here/corpus/$name" > "$log" 2>&1; then
    echo "fuzz: $name: $(grep -oE 'Done [0-9]+ runs in [0-9]+ second' "$log")s, no crash"
  else
    tail -n 30 "$log"
    echo "fuzz: $name: FAILED (input: $(ls -t "$build/$name-"* 2>/dev/null | head -n 1))"
    failed=$((failed + 1))
  fi
done
echo "$((${#fuzzers[@]} - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
