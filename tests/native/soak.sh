#!/usr/bin/env bash
# Many checkpoints of one program: memory and work stay what they are (the program looks itself), and no file is left
# behind: not in the prefix directory, its .scr, or the caches.
#
#   soak.sh SOAK RANKS CHECKPOINTS
set -u
soak=$(realpath "$1") ranks=$2 checkpoints=$3
folder=$(mktemp -d /dev/shm/soak.XXXXXX)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/prefix" "$folder/cache"
export SCR_PREFIX=$folder/prefix SCR_CNTL_BASE=$folder/cache SCR_CACHE_BASE=$folder/cache SCR_JOB_ID=soak
# As many flushes in each tenth of the run, which are compared.
export SCR_CACHE_SIZE=2 SCR_FLUSH=$((checkpoints / 20)) SCR_PREFIX_SIZE=3 SCR_FLUSH_ASYNC=1
bin=$(cd "$(dirname "$soak")/../bin" && pwd)
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
# .scr: the dataset directories of the index, and a few files of its own.
python3 - "$SCR_PREFIX" "$folder/cache" "$bin" "$ranks" <<'END' || failed=1
import json, pathlib, subprocess, sys
prefix, cache, bin, ranks = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
wrong = []


def told(*words):
    return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)


indexed = {one["directory"] for one in told(bin + "/scr_index", "-p", str(prefix), "--no-cache", "--json")}
found = {path.name for path in (prefix / ".scr").iterdir() if path.is_dir()}
if found != indexed or len(found) > 3:
    wrong.append(f".scr has {sorted(found)}, the index {sorted(indexed)}")
files = sorted(path.name for path in (prefix / ".scr").iterdir() if path.is_file())
if len(files) > 12:
    wrong.append(f".scr has the files {files}")

# Caches: every file is listed by a filemap, and the control directory has a filemap of each rank and little more.
listed = set()
for filemap in cache.rglob("filemap_*.scrinfo"):
    for rank in told(bin + "/scr_print_hash_file", "--json", str(filemap))["RANK"].values():
        for dataset in rank["DSET"].values():
            directory = dataset["DIR"]
            directory = directory if isinstance(directory, str) else next(iter(directory))
            listed |= {f"{directory}/{name}" for name in dataset.get("FILE", {})}
there = {str(path) for path in cache.glob("*/scr.soak/index.*/**/*") if path.is_file()}
if not there or there - listed:
    wrong.append(f"no filemap lists {sorted(there - listed)[:5]} of {len(there)} files in the cache")
own = sorted(path.name for path in cache.glob("*/scr.soak/*") if path.is_file())
if len(own) > ranks + 10:
    wrong.append(f"the control directory has {own}")
for line in wrong:
    print("FAIL:", line)
sys.exit(1 if wrong else 0)
END
exit $failed
