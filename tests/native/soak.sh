#!/usr/bin/env bash
# Many checkpoints of one program: memory stays flat (the program looks itself), and no file is left behind.
#
#   soak.sh SOAK RANKS CHECKPOINTS
set -u
soak=$1 ranks=$2 checkpoints=$3
folder=$(mktemp -d /dev/shm/soak.XXXXXX)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/prefix" "$folder/cache"
export SCR_PREFIX=$folder/prefix SCR_CNTL_BASE=$folder/cache SCR_CACHE_BASE=$folder/cache SCR_JOB_ID=soak
export SCR_CACHE_SIZE=2 SCR_FLUSH=50 SCR_PREFIX_SIZE=3 SCR_FLUSH_ASYNC=1
failed=0
fail() { echo "FAIL: $*"; failed=1; }

cd "$SCR_PREFIX" || exit 2
timeout -k 10 3000 "$MPIEXEC" -n "$ranks" "$soak" "$checkpoints" > "$folder/out" 2>&1 || fail "exit status $?"
cat "$folder/out"
grep -qx DONE "$folder/out" || fail "no DONE"
datasets=$(find "$folder/cache" -type d -name 'dataset.*' | wc -l)
((datasets <= 2)) || fail "$datasets datasets in a cache for 2"
stored=$(find "$SCR_PREFIX" -path '*/.scr' -prune -o -type f -print | wc -l)
((stored <= 3 * ranks)) || fail "$stored files in the prefix directory, of 3 datasets of $ranks"
left=$(find "$folder" -name '*.scr-*' -o -name '*.tmp*' -o -name '*.scrtmp*' | head -n 5)
[[ -z $left ]] || fail "temporary files: $left"
exit $failed
