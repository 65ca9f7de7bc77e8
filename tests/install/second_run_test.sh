#!/usr/bin/env bash
# After a build there is nothing left to install or build: what a second `make test` does first. Runs as a part of
# `make test`, when everything has just been built.
#   second_run_test.sh BUILD_DIR
set -euo pipefail
build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
fail() { echo "FAIL: $*" >&2; exit 1; }

said=$(bash "$root/.ci/bootstrap" "$build") || fail "bootstrap: $said"
[ -z "$said" ] || fail "bootstrap still had something to do: $said"
for folder in "$build" "$build/fuzz"; do
  [ -f "$folder/build.ninja" ] || continue
  target=$([ "$folder" = "$build" ] && echo all || echo fuzzers)
  said=$(cmake --build "$folder" --target "$target" 2>&1 | tail -n 5)
  grep -q 'no work to do' <<< "$said" || fail "there is still something to build in ${folder##*/}: $said"
done
echo "ok"
