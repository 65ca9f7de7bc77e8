#!/usr/bin/env bash
# scr_index on datasets in the prefix directory, in containers and in the cache, sound and damaged.
#   index.sh BUILD_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/local_lib.sh"
mkdir -p "$work/prefix/sub" "$work/cache"
prefix=$work/prefix
cd "$prefix" || exit 1
export SCR_PREFIX=$prefix SCR_JOB_ID=job SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=$work/cache

# A dataset with a file: write TIME FILE
write() { HDF5_DRIVER=scr HDF5_PLUGIN_PATH=$build/plugin "$build/tests/write_tree" "$@" > /dev/null 2>&1; }

write 0.25 a.h5
SCR_USE_CONTAINERS=1 write 0.5 sub/b.h5
SCR_USE_CONTAINERS=1 write 0.75 c.h5
SCR_FLUSH=0 write 0.9 d.h5

echo "-- list"
run 0 scr_index
has '^ *4 +ckpt .* cache +d$'
has '^ *3  \* .* containers +c$'
has '^ *2 .* containers +sub/b$'
has '^ *1 .*complete .* prefix +a$'
run 0 scr_index --no-cache
has_not ' d$'
run 0 scr_index --json
json '[d["id"] for d in data] == [4, 3, 2, 1]'
json '[d["where"] for d in data] == [["cache"], ["containers"], ["containers"], ["prefix"]]'
json 'data[1]["current"] and data[1]["complete"] and data[1]["ranks"] == 1 and data[1]["bytes"] > 10000'
run 0 scr_index --current
has '^c$'
run 0 scr_index --current a
run 0 scr_index --current --json
json 'data["name"] == "a"'

echo "-- attributes"
run 0 scr_index --attr time --attr /data/field@units
has '^ *ID .* time +/data/field@units +NAME$'
has ' 0.9 +K +d$'
has ' 0.5 +K +sub/b$'
run 0 scr_index --find 'time>0.5'
has ' 0.9 +d$'
has ' 0.75 +c$'
has_not ' a$| sub/b$'
run 0 scr_index --find 'time >= 0.5 && step != 75 && code == "write_tree"' --json
json '[(d["name"], d["attributes"]["time"]) for d in data] == [("d", 0.9), ("sub/b", 0.5)]'
run 0 scr_index --find 'none==1' --json
json 'data == []'
run 2 scr_index --find 'time ~ 3'
has 'cannot understand'

echo "-- trees, also inside containers"
for name in a sub/b d 3; do
  run 0 scr_index "$name"
  has '/data/field +float64 \{100, 40\}, chunked 30x40, shuffle, deflate\(6\), fletcher32'
  has '@units = "K"'
  has '/outside +external link to /etc/hostname:/x'
done
run 0 scr_index a --attr units
has '@units'
has_not '@time'
run 0 scr_index c --json
json 'data["contents"][0]["where"] == "containers" and data["contents"][0]["hdf5"]'
json '[o for o in data["contents"][0]["objects"] if o["path"] == "/data/time"][0]["shape"] == "scalar"'
run 1 scr_index none
has "there is no dataset 'none'"

echo "-- extract"
run 0 scr_index --extract sub/b --to out/b
[[ $("$(cat "$build/deps/hdf5.root")/bin/h5dump" -a time out/b/sub/b.h5) == *0.5* ]] && ok || not_ok "h5dump of what was extracted"
run 1 scr_index --extract sub/b --to out/b
has 'it exists and is not an empty directory'
run 0 scr_index --extract c --json
json 'data["files"] == 1 and data["to"].endswith("/scr.dataset.3.extracted")'

echo "-- differences"
run 1 scr_index --diff a sub/b
has '/data/field: 4000 of 4000 values differ, by up to 0.25'
has '/@time: values differ: 0.25, 0.5'
has '^1 of 1 file\(s\) differ'
run 0 scr_index --diff a a
has '^0 of 1 file\(s\) differ'
run 1 scr_index --diff a c --json
json 'data["different_files"] == 1 and data["files"][0]["difference_count"] >= 4'

echo "-- check"
run 0 scr_index --check
has '^a: 1 file\(s\), .* 1 of them HDF5: checksums and contents are right'
has '^d: 1 file'
run 0 scr_index --check c --json
json 'data[0]["damaged"] == 0 and data[0]["checked"][0]["hdf5"]'
cp a.h5 "$work/a.h5"
python3 - a.h5 <<'PY'
import sys
with open(sys.argv[1], "r+b") as file:
    data = file.read()
    file.seek(data.find(b"\x78\x9c") + 40)
    file.write(b"\x55\xaa")
PY
run 1 scr_index --check a
has "a: a.h5: 'a.h5' has the checksum"
has 'a: a.h5: cannot read /data/field'
run 1 scr_index --check
has '^c: 1 file\(s\).*are right'
head -c 5000 "$work/a.h5" > a.h5
run 1 scr_index --check a --json
json 'data[0]["damaged"] == 1 and any("truncated" in p for p in data[0]["checked"][0]["problems"])'
run 1 scr_index a
has 'DAMAGED: cannot be opened as HDF5'
run 1 scr_index --extract a --to out/a
[[ ! -e out/a ]] && [[ -z $(ls -A out | grep -v '^b$') ]] && ok || not_ok "a failed extraction left something: $(ls -A out)"
cp "$work/a.h5" a.h5
container=$(find .scr/scr.dataset.3 -name 'ctr.0.scr')
cp "$container" "$work/container"
printf 'garbage' | dd of="$container" bs=1 seek=2000 conv=notrunc 2> /dev/null
run 1 scr_index --check c
has 'checksum'
rm "$container"
run 1 scr_index c
has 'DAMAGED: '
cp "$work/container" "$container"
run 0 scr_index --check

echo "-- a damaged summary is one damaged dataset"
cp .scr/scr.dataset.1/summary.scr "$work/summary"
head -c 30 "$work/summary" > .scr/scr.dataset.1/summary.scr
run 0 scr_index
has '^ *1 .* damaged '
has ' c$'
cp "$work/summary" .scr/scr.dataset.1/summary.scr

echo "-- wrong use"
for action in --verify --drop --delete --add --extract --clear-failed --current --file --find --prefix; do
  run 2 scr_index $action ''
  has 'an argument is empty'
done
run 2 scr_index ''
run 2 scr_index --diff a ''
run 2 scr_index --verify a c
has "'c' is one name too many for --verify"
run 2 scr_index a --verify c
has "'a' is one name too many for --verify"
run 2 scr_index --list a
run 2 scr_index --current a c
run 0 scr_index --current
has '^a$'
run 2 scr_index --repair
has '--repair needs --verify'
run 2 scr_index --check --repair
has '--repair is not for --check'
run 2 scr_index a --to out/a
has '--to needs --extract'
run 2 scr_index --dry-run
has '--dry-run needs --clean'
run 2 scr_index --verify a --file 'a*'
run 2 scr_index --file 'a*'
run 2 scr_index a --find 'time>0'
run 0 scr_index --list

echo "-- no file matches"
run 1 scr_index --check --file '['
has "^scr_index: no file matches '\['"
run 1 scr_index --check a --file zz
has_not ' right'
run 1 scr_index --check --file zz --json
json 'all(one["checked"] == [] for one in data)'
run 0 scr_index --check --file 'a*'
has "^c: no file matches 'a\*'"
has '^a: 1 file'
run 1 scr_index --diff a c --file zz
has "no file matches 'zz'"
run 1 scr_index --extract a --file 'nomatch*' --to out/nothing
has "no file matches 'nomatch\*'"
[[ ! -e out/nothing ]] && ok || not_ok "nothing was extracted, to a directory"
run 1 scr_index a --file zz
has "no file matches 'zz'"

echo "-- a prefix directory that is none"
run 1 scr_index --prefix "$work/none"
has "'$work/none': No such file"
run 1 scr_index --prefix "$prefix/a.h5" --verify-all
has "'$prefix/a.h5': Not a directory"
mkdir "$work/empty"
run 0 scr_index --prefix "$work/empty" --no-cache --json
json 'data == []'

echo "-- what is no regular file is damage, and nobody waits for it"
# in_place_of FILE COMMAND...: with a FIFO there.
in_place_of() {
  mv "$1" "$work/kept" && mkfifo "$1"
  shift
  run 1 timeout 60 "$@"
  has 'is not a regular file'
}
put_back() { rm -r "$1" && mv "$work/kept" "$1"; }
in_place_of "$container" scr_index --verify c
run 1 timeout 60 scr_index --check c
run 1 timeout 60 scr_index --extract c --to out/fifo
put_back "$container"
in_place_of .scr/scr.dataset.1/summary.scr scr_index --verify a
run 0 timeout 60 scr_index
has '^ *1 .* damaged '
put_back .scr/scr.dataset.1/summary.scr
in_place_of a.h5 scr_index --verify a
put_back a.h5
in_place_of .scr/index.scr scr_index
has 'index.scr'
put_back .scr/index.scr
mv .scr/index.scr "$work/kept"
mkdir .scr/index.scr
run 1 scr_index
has 'index.scr.* is not a regular file'
put_back .scr/index.scr
mv .scr/index.scr.lock "$work/kept"
mkdir .scr/index.scr.lock
run 1 scr_index --current a
has 'index.scr.lock.*Is a directory'
put_back .scr/index.scr.lock
run 0 scr_index --check

echo "-- parity"
mkdir "$work/parity"
cd "$work/parity" || exit 1
SCR_PREFIX=$work/parity SCR_JOB_ID=parity SCR_USE_CONTAINERS=1 SCR_CONTAINER_PARITY=1 write 0.5 p.h5
run 0 scr_index --check --no-cache
has '^p: 1 file\(s\).*are right'
parity=$(find .scr -name 'ctr.parity.0.scr')
printf 'garbage' | dd of="$parity" bs=1 seek=2000 conv=notrunc 2> /dev/null
run 1 scr_index --check --no-cache
has "^p: parity: .*${parity##*/}"
has_not 'are right$'
rm "$parity"
run 1 scr_index --check --no-cache --json
json 'data[0]["damaged"] == 0 and len(data[0]["parity_problems"]) == 1'
run 0 scr_index --check --no-cache --file 'p*'
run 0 scr_index --verify p --repair
run 0 scr_index --check --no-cache
cd "$prefix" || exit 1

echo "-- where HDF5 is missing or cannot be loaded"
mkdir "$work/lib"
cp "$build"/lib/libscr_base.so.0* "$work/lib"
export LD_LIBRARY_PATH=$work/lib
for state in missing garbage; do
  [[ $state == garbage ]] && echo garbage > "$work/lib/libscr_hdf5_reader.so"
  run 0 scr_index
  has ' containers +c$'
  run 0 scr_index --extract c --to "out/$state"
  run 0 scr_index --verify-all
  run 1 scr_index c
  has '^c.h5: rank 0, .*, HDF5'
  has 'cannot load HDF5'
  run 1 scr_index --check a
  has 'cannot load HDF5'
  run 1 scr_index --attr time
  has 'cannot load HDF5'
done
unset LD_LIBRARY_PATH

echo "-- many files, with progress"
mkdir "$work/many" && cd "$work/many" || exit 1
export SCR_PREFIX=$work/many SCR_JOB_ID=many OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$build/tests/write_tree" 1 "$work/one.h5" > /dev/null 2>&1
SCR_USE_CONTAINERS=1 SCR_FLUSH=1 LD_LIBRARY_PATH=$build/lib PYTHONPATH=$build/lib/python \
  run 0 mpiexec -n 1 /usr/bin/python3 -c "
import shutil; from mpi4py import MPI; import scr
scr.init()
scr.start_output('many', scr.FLAG_CHECKPOINT)
for number in range(1, 1001):
    shutil.copyfile('$work/one.h5', scr.route_file(f'f{number}.h5'))
scr.complete_output(True)
scr.finalize()"
run 0 scr_index --no-cache --json
json 'len(data) == 1 and data[0]["files"] == 1000 and data[0]["where"] == ["containers"]'
run 0 scr_index --check --progress
has '1000 of 1000 files \(100%\)'
has '1000 file\(s\), .* 1000 of them HDF5: checksums and contents are right'
run 0 scr_index 1 --file 'f99*.h5'
has '^f99.h5: '
has '^f999.h5: .* objects as in f99.h5'
has_not '^f98.h5'
finish
