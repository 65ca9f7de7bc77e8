# Common parts of the tests with programs that know nothing of h5scr, on top of the fault tests'.
#
#   $1 of every test    the build folder
#   $examples           compiled examples;  $clients  compiled test programs

build=$(cd "$1" && pwd)
shift
set -- "$build/tests" "$@"
source "$(dirname "${BASH_SOURCE[0]}")/../faults/lib.sh"
examples=$build/examples clients=$build/clients tests=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
hdf5=$(cat "$build/deps/hdf5.root")
export LD_LIBRARY_PATH=$build/lib:$hdf5/lib PATH=$build/bin:$hdf5/bin:$PATH
unset SCR_FLUSH SCR_FETCH # as a user of transparent mode has it

# A new case without h5scr's variables from the one before.
begin_client() { # text
  begin "$1"
  unset HDF5_DRIVER HDF5_PLUGIN_PATH SCR_USE_CONTAINERS SCR_FLUSH SCR_FLUSH_ASYNC
}

# Runs a program on the cluster with h5scr (HDF5 1.14 through the plug-in, MPI through the preload).
client() { # mpirun-argument... program argument...
  out=$(cluster run --per-node "$per_node" -x HDF5_DRIVER=scr -x "HDF5_PLUGIN_PATH=$build/plugin" \
    -x "LD_PRELOAD=$build/lib/libscr_mpiio.so" -n "$ranks" "$@" 2>&1)
  status=$?
}

# The same without h5scr.
plain_client() {
  out=$(cluster run --per-node "$per_node" -n "$ranks" "$@" 2>&1)
  status=$?
}

# A serial HDF5 tool or program on the machine itself, with the driver.
with_driver() {
  HDF5_DRIVER=scr HDF5_PLUGIN_PATH=$build/plugin "$@"
}

expect_same_file() { # one other
  cmp -s "$1" "$2"
  check $? "'$1' and '$2' must be the same"
}

# --- acts (acts.c) -----------------------------------------------------------------------------------------

# A case with two ranks on each of two nodes, which is the least that has another node.
begin_acts() { # text
  begin_client "$1"
  ranks=4
}

acts() { # act...
  client "$clients/acts" "$@"
}

plain_acts() { # act...
  plain_client "$clients/acts" "$@"
}

# It came to its end, and all that it read was right.
expect_done() {
  if [[ $status == 0 ]] && grep -qx DONE <<<"$out" && ! grep -q WRONG <<<"$out"; then
    ok
  else
    not_ok "expected a good end$([[ $status == 124 ]] && echo ' (it hung until the timeout)')"
  fi
}

expect_no_hang() {
  [[ $status != 124 ]]
  check $? "it hung until the timeout"
}

# No marker is left, neither for people nor for h5scr, nor any temporary file.
expect_no_notes() {
  local left
  left=$(find . -path './.scr/markers/*' -type f -o -name '*.scr-*' -o -name '*.h5' -size 3989c)
  [[ -z $left ]]
  check $? "left behind: $left $([[ -z $left ]] || head -n 1 <<<"$left" | xargs strings | head -n 40)"
}

# Runs the cases of a test, functions whose names begin with case_: all of them, or those that are named.
run_cases() { # [name...]
  local name
  (($#)) || set -- $(declare -F | sed -n 's/^declare -f case_//p')
  for name; do "case_$name"; done
  finish
}

# A file that every HDF5 program can open.
expect_real() { # file...
  local file
  for file; do
    h5ls "$file" >ls.out 2>&1
    check $? "'$file' must be a real file: $(head -n 1 ls.out)"
  done
}

# Every byte in the prefix directory is right.
expect_verified() {
  scr_index --verify-all >verify.out 2>&1
  check $? "scr_index --verify-all: $(head -n 3 verify.out)"
}

# Runs a program and kills a node once these files are there, or after 90 seconds: the run fails with its node.
run_and_lose() { # node "file..." function argument...
  local node=$1 files killer i
  read -ra files <<<"$2"
  shift 2
  (
    for ((i = 0; i < 1800; i++)); do
      ls "${files[@]}" >/dev/null 2>&1 && break
      sleep 0.05
    done
    cluster kill "$node"
  ) &
  killer=$!
  "$@"
  wait $killer
  [[ $status != 0 ]]
  check $? "the run must have failed with its node"
}
