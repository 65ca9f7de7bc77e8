#!/usr/bin/env bash
# Programs of HDF5 1.10 without MPI: a Python script that is killed and started again, and Debian's h5dump and
# h5ls on its files wherever they are.
#
#   h5py_serial.sh BUILD
source "$(dirname "$0")/legacy_lib.sh"
script=$scripts/serial_h5py.py

begin_client "the preload needs libc only, has no constructor, and leaves other programs alone"
preload=$build/lib/libscr_hdf5_legacy.so
[[ $(readelf -d "$preload" | grep -c NEEDED) == 1 ]] && readelf -d "$preload" | grep -q 'NEEDED.*libc\.so'
check $? "the preload must need libc only: $(readelf -d "$preload" | grep NEEDED)"
serial bash -c 'echo shell; grep -c libscr_base /proc/self/maps'
expect_line shell
expect_line 0

begin_client "the result without h5scr"
plain_serial $python "$script" 12
expect_status 0
result=$(grep '^done' <<<"$out")
reference=$SCR_PREFIX

begin_client "killed in the middle: the newest checkpoint is found in the cache, before it is flushed"
serial $python "$script" 7
expect_status 0
export SCR_FLUSH_ASYNC_BW=1 # bytes a second
serial $python "$script" 12 --die 8
expect_status 137
expect_line "restarted from step 7 (ckpt_0007.h5)"
expect_marker ckpt_0008.h5
serial /usr/bin/h5dump -d /state -s 5 -c 1 ckpt_0008.h5
expect_status 0
expect_text '\(5\): '
serial /usr/bin/h5ls ckpt_0008.h5
expect_text 'state +Dataset \{1000\}'
plain_serial /usr/bin/h5dump ckpt_0008.h5
expect_text "unable to open file"
unset SCR_FLUSH_ASYNC_BW
serial $python "$script" 12
expect_status 0
expect_line "restarted from step 8 (ckpt_0008.h5)"
expect_line "$result"
for file in "$reference"/*.h5; do
  expect_real "$(basename "$file")"
  h5diff "$file" "$(basename "$file")" >diff.out 2>&1
  check $? "h5diff of $(basename "$file"): $(head -c 300 diff.out)"
done
plain_serial ls
expect_no_text "ckpt_0009.h5"
expect_no_text "tmp|scr-"

begin_client "h5dump and h5ls on a flushed file and on one in a container"
export SCR_USE_CONTAINERS=1
serial $python "$script" 2 --die 2 --size 50000
serial $python "$script" 3 --size 50000
expect_status 0
expect_marker ckpt_0003.h5
cluster exec node0 rm -rf "$H5SCR_NODE_LOCAL/root"
serial /usr/bin/h5dump -d /state -s 7 -c 2 ckpt_0003.h5
contained=$out
expect_status 0
expect_text '\(7\): '
serial /usr/bin/h5ls -v ckpt_0003.h5
expect_text 'state +Dataset \{50000/50000\}'
unset SCR_USE_CONTAINERS
mkdir plain && cd plain && export SCR_PREFIX=$PWD
serial $python "$script" 3 --size 50000
expect_real ckpt_0003.h5
serial /usr/bin/h5dump -d /state -s 7 -c 2 ckpt_0003.h5
[[ $out == "$contained" ]]
check $? "the flushed file and the contained one must be the same to h5dump"
plain_serial /usr/bin/h5dump -d /state -s 7 -c 2 ckpt_0003.h5
[[ $out == "$contained" ]]
check $? "without the preload, too"

for how in restart replace; do
  begin_client "restart.h5 is written anew each step ($how): there is always a good one"
  serial $python "$script" 3 --how $how
  expect_status 0
  expect_real restart.h5
  # To replace means two datasets a step, and the second waits for the flush of the first.
  [[ $how == replace ]] || export SCR_FLUSH_ASYNC_BW=1
  serial $python "$script" 12 --how $how --die 4
  expect_status 137
  plain_serial $python -c 'import h5py; print("STEP", h5py.File("restart.h5", "r").attrs["step"])'
  if [[ $how == restart ]]; then expect_line "STEP 3"; else expect_text "^STEP [34]$"; fi # flushed, and whole
  serial $python -c 'import h5py; print("STEP", h5py.File("restart.h5", "r").attrs["step"])'
  expect_line "STEP 4"
  unset SCR_FLUSH_ASYNC_BW
  serial $python "$script" 12 --how $how
  expect_line "restarted from step 4 (restart.h5)"
  expect_line "$result"
  plain_serial $python -c 'import h5py; print("STEP", h5py.File("restart.h5", "r").attrs["step"])'
  expect_line "STEP 12"
  [[ ! -e restart.h5.tmp ]]
  check $? "no file of the temporary name must be left"
done

begin_client "PyTables: tables that are appended to and indexed, killed and started again"
tables=$scripts/../tests/clients/tables_client.py
plain_serial $python "$tables" 5
expect_status 0
result=$out reference=$SCR_PREFIX
begin_client "PyTables with h5scr"
export SCR_FLUSH_ASYNC_BW=1 SCR_CACHE_SIZE=20 # two datasets a step, and none waits for the flush of another
serial $python "$tables" 5 --die 3
expect_status 137
expect_marker particles_0003.h5
unset SCR_FLUSH_ASYNC_BW SCR_CACHE_SIZE
serial $python "$tables" 5
expect_status 0
expect_line "restarted from step 3"
[[ $(grep ^done <<<"$out") == "$(grep ^done <<<"$result")" ]]
check $? "the result must be that without h5scr: $out"
for file in "$reference"/particles_*.h5; do
  expect_real "$(basename "$file")"
  plain_serial h5diff "$file" "$(basename "$file")"
  expect_status 0
done

begin_client "a file that Python closes at its end"
serial $python "$script" 4 --hold
expect_status 0
expect_no_text "rror|Traceback"
plain_serial $python -c 'import h5py; print("STEP", h5py.File("ckpt_0004.h5", "r").attrs["step"])'
expect_line "STEP 4"

# Hard links, directories that are renamed and deleted, names below an open directory, commands.
for how in "" SCR_FLUSH_ASYNC_BW=20KB SCR_USE_CONTAINERS=1; do
  begin_client "names that change in other ways than by rename and unlink (${how:-as a user has it})"
  mkdir plain with && cd plain
  plain_serial $python "$scripts/../tests/clients/names_client.py"
  expect_status 0
  wanted=$out
  cd ../with && export SCR_PREFIX=$PWD SCR_CACHE_SIZE=50
  if [[ $how ]]; then export "${how?}"; fi
  serial $python "$scripts/../tests/clients/names_client.py"
  expect_status 0
  [[ $(grep -v SCR <<<"$out") == "$wanted" ]]
  check $? "the same must be found as without h5scr: $(diff <(grep -v SCR <<<"$out") <(echo "$wanted"))"
  expect_no_text "ERROR|could not be flushed"
  unset SCR_FLUSH_ASYNC_BW SCR_USE_CONTAINERS SCR_CACHE_SIZE
  [[ $how == *CONTAINERS* ]] && continue # the files are in there, with markers at their names
  diff -r --exclude=.scr --exclude=scr.current ../plain . >../diff.out 2>&1
  check $? "the same files must be there in the end: $(head -n 5 ../diff.out)"
  expect_no_notes
done

begin_client "errors are those of HDF5, with our reason"
serial $python -c '
import h5py
for name, mode in ("missing.h5", "r"), ("no/folder.h5", "w"), ("there.h5", "x"), ("there.h5", "x"):
  try:
    h5py.File(name, mode).close()
    print("FINE", name)
  except OSError as error:
    print(type(error).__name__, error)
print("IS", h5py.is_hdf5("there.h5"), h5py.is_hdf5("missing.h5"))'
expect_status 0
expect_text "^FileNotFoundError .*missing.h5.*No such file.*driver scr"
expect_text "^(FileNotFoundError|OSError) .*no/folder.h5|^FileNotFoundError .*no'"
expect_line "FINE there.h5"
expect_text "^(FileExistsError|OSError|BlockingIOError) .*there.h5.*File exists"
expect_line "IS True False"

begin_client "a file that is in the cache only, without a marker"
export SCR_FLUSH_ASYNC_BW=1 SCR_MARKERS=off
serial $python -c '
import h5py, os
with h5py.File("c.h5", "w") as file: file["a"] = range(1000)
print("IS", h5py.h5f.is_hdf5(b"c.h5"), os.path.exists("c.h5"), h5py.File("c.h5", "r")["a"][7], flush=True)
os.kill(os.getpid(), 9)'
expect_line "IS True False 7"
unset SCR_FLUSH_ASYNC_BW SCR_MARKERS

begin_client "other drivers, SCR_ENABLE=0 and a missing HDF5_DRIVER pass through"
out=$(cluster exec node0 env "LD_PRELOAD=$preload" $python "$script" 2 2>&1) status=$?
expect_status 0
SCR_ENABLE=0 serial $python "$script" 3
expect_status 0
serial $python -c 'import h5py; f = h5py.File("core.h5", "w", driver="core"); f["a"] = 1; f.close()'
expect_status 0
[[ ! -e .scr && -e core.h5 && -e ckpt_0003.h5 ]]
check $? "nothing must have been routed"

begin_client "an HDF5 with plug-ins is left to its plug-in, in one line"
plain_serial $python "$script" 1
out=$(HDF5_DRIVER=scr HDF5_PLUGIN_PATH=$build/plugin cluster exec node0 env "LD_PRELOAD=$preload" \
  "$hdf5/bin/h5dump" -d /state -s 7 -c 2 ckpt_0001.h5 2>&1) status=$?
expect_status 0
[[ $(grep -c "libscr_hdf5_legacy is for HDF5 1.10 and 1.12 and does nothing for HDF5 1.14" <<<"$out") == 1 ]]
check $? "one line that says so"

begin_client "external links, links to other files, and files that are kept open"
serial $python -c '
import h5py, os
with h5py.File("part.h5", "w") as part: part["x"] = range(10)
with h5py.File("main.h5", "w") as main:
  main["link"] = h5py.ExternalLink("part.h5", "/x")
  layout = h5py.VirtualLayout(shape=(10,), dtype="i8")
  layout[:] = h5py.VirtualSource("part.h5", "x", shape=(10,))
  main.create_virtual_dataset("virtual", layout)
with h5py.File("main.h5", "r") as main: print("SUM", main["link"][:].sum(), main["virtual"][:].sum())
with h5py.File("main.h5", "a") as main: main["more"] = 7
os.rename("part.h5", "other.h5")
os.remove("other.h5")
print("THERE", os.path.exists("part.h5"), os.path.exists("other.h5"))
with h5py.File("log.h5", "w") as log:
  for i in range(6):
    log[str(i)] = i
    log.flush()
  print("LOG", os.path.getsize("log.h5") > 4000)'
expect_status 0
expect_line "SUM 45 45"
expect_line "THERE False False"
expect_line "LOG True"
plain_serial $python -c 'import h5py; print("MORE", h5py.File("main.h5", "r")["more"][()], len(h5py.File("log.h5", "r")))'
expect_line "MORE 7 6"
finish
