# Common parts of the tests of the HDF5 driver with serial programs.
#   $1 of every test    the build folder
# Each runs in a folder of its own, with a prefix directory ($prefix) and a cache of its own.
build=$(cd "$1" && pwd)
hdf5=$(cat "$build/deps/hdf5.root")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
passed=0 failed=0
export PATH=$build/bin:$hdf5/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
for name in $(compgen -e SCR_) HDF5_DRIVER HDF5_DRIVER_CONFIG HDF5_PLUGIN_PATH HDF5_USE_FILE_LOCKING; do unset "$name"; done
mkdir -p "$prefix" "$work/cache"
cd "$prefix" || exit 1

# The driver without any setting of h5scr, and with those of a job.
with_driver() { HDF5_DRIVER=scr HDF5_PLUGIN_PATH=$build/plugin "$@"; }
in_job() {
  SCR_PREFIX=$prefix SCR_JOB_ID=${job:-job} SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=${cache_base:-$work/cache} with_driver "$@"
}

# An HDF5 file with a dataset of numbers: make_file NAME FIRST [COMMAND...]
make_file() { "${@:3}" "$build/tests/write_numbers" "$2" 10000 "$1"; }

# check NAME COMMAND...: the command succeeds; its output goes to $work/log
check() {
  local name=$1
  shift
  if "$@" > "$work/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: $name"; cat "$work/log"; fi
}

# A file at its name that HDF5 opens without our driver.
is_real() { h5dump -H "$1" > /dev/null 2>&1; }
is_marker() { [ -e "$1" ] && ! is_real "$1"; }

finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}
