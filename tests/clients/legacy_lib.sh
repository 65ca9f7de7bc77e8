# Common parts of the tests with programs of HDF5 1.10 (Debian's h5py and tools), served by the preload
# libscr_hdf5_legacy, on top of lib.sh.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../h5examples" && pwd)
export PYTHONDONTWRITEBYTECODE=1
python=/usr/bin/python3

# A Python program on the cluster, with both preloads.
python_client() { # script argument...
  out=$(cluster run --per-node "$per_node" -x HDF5_DRIVER=scr \
    -x "LD_PRELOAD=$build/lib/libscr_mpiio.so:$build/lib/libscr_hdf5_legacy.so" -n "$ranks" $python "$@" 2>&1)
  status=$?
}

# A program without MPI on the first node, with the preload; ended after a minute.
serial() { # program argument...
  out=$(HDF5_DRIVER=scr cluster exec node0 env "LD_PRELOAD=$build/lib/libscr_hdf5_legacy.so" timeout -k 5 60 "$@" 2>&1)
  status=$?
}

# The same without h5scr.
plain_serial() {
  out=$(cluster exec node0 timeout -k 5 60 "$@" 2>&1)
  status=$?
}

expect_marker() { # file
  [[ -f $1 && $(stat -c %s "$1") == 3989 ]] && grep -qa "h5scr" "$1"
  check $? "'$1' must be a marker"
}

expect_real() { # file
  [[ -f $1 && $(stat -c %s "$1") != 3989 ]]
  check $? "'$1' must be a real file"
}

# The files of the run without h5scr, in the folder $reference, and those here are the same to HDF5, which notes the
# time of each object; and all that was flushed is whole.
same_as_reference() { # [file...]
  local file
  (($#)) || set -- "$reference"/*.h5
  for file; do
    h5diff "$file" "$(basename "$file")" >diff.out 2>&1
    check $? "h5diff of $(basename "$file"): $(head -c 300 diff.out)"
  done
  scr_index --verify-all >verify.out 2>&1
  check $? "scr_index --verify-all: $(head -n 3 verify.out)"
}
