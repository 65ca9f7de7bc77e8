# Common parts of the tests of MPI-IO: a folder of their own, and ways to start a program.
#
#   $1 of every test    the build folder; MPIEXEC names the launcher

build=$(cd "$1" && pwd)
shift
work=$(mktemp -d /dev/shm/mpiio.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/prefix" "$work/cache"
export SCR_PREFIX=$work/prefix SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=$work/cache

die() { echo "FAILED: $*" >&2; exit 1; }

# Without h5scr.
plain() { # ranks program argument...
  timeout -k 5 "${limit:-200}" "${MPIEXEC:-mpiexec}" -n "$@"
}

# With h5scr; `env` is the program that gets the preload, not the launcher. Behind the runtime of a sanitizer, if
# there is one.
routed() { # ranks program argument...
  local ranks=$1
  shift
  timeout -k 5 "${limit:-200}" "${MPIEXEC:-mpiexec}" -n "$ranks" env "LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$build/lib/libscr_mpiio.so" "$@"
}
