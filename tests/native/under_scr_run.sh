#!/usr/bin/env bash
# A program that calls SCR_* under scr_run: what scr_run brings for programs that do not leaves it alone. It is as
# under mpirun, but for what happens outside of the program. And one that is linked with the native API and does not
# use it is protected like any other.
#
#   under_scr_run.sh BUILD NATIVE_APP OPTIONAL_SCR [PYTHON_PROGRAM]
set -u
build=$1 native_app=$2 optional=$3 python_program=${4:-}
export PATH=$build/bin:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

begin() { # what: a prefix directory, a cache and a job of its own
  what=$1
  export SCR_PREFIX=$folder/$2/prefix SCR_CNTL_BASE=$folder/$2/cache SCR_CACHE_BASE=$folder/$2/cache SCR_JOB_ID=$2
  mkdir -p "$SCR_PREFIX" "$SCR_CACHE_BASE"
  cd "$SCR_PREFIX" || exit 2
}
fail() {
  cat "$folder/out"
  echo "FAIL: $what: $*"
  failed=1
}
run() { # status ranks program...
  local expected=$1 ranks=$2 status
  shift 2
  timeout -k 5 100 scr_run --no-postrun -- "$MPIEXEC" -n "$ranks" "$@" >"$folder/out" 2>&1
  status=$?
  [[ $expected == any || $status == "$expected" ]] || fail "exit status $status, expected $expected"
}
says() { grep -qE -- "$1" "$folder/out" || fail "expected a line like '$1'"; }
says_not() { ! grep -qE -- "$1" "$folder/out" || fail "a line like '$1'"; }
# Besides what h5scr has for itself there is nothing in the prefix directory, not even in secret.
prefix_is_empty() {
  local found
  found=$(find . -path ./.scr -prune -o -type f -print -o -path ./.scr/markers)
  [[ -d .scr/markers ]] && found+=$(find .scr/markers -type f)
  [[ -z $found ]] || fail "in the prefix directory: $found"
}
untouched() {
  prefix_is_empty
  says_not 'files routed|cannot create|as without h5scr'
  ! compgen -G '.scr/scr.dataset.*' >/dev/null || fail "something was flushed"
}

for flush in 0 10; do
  export SCR_FLUSH=$flush
  begin "a restart from the cache, SCR_FLUSH=$flush" "native$flush"
  run any 2 "$native_app" 5 1 300 --die-at 3
  untouched
  run any 2 "$native_app" 5 1 300 --die-at 4
  says '^RESTARTED 2'
  untouched
done
export SCR_FLUSH=0

begin "another number of ranks" ranks
run any 2 "$native_app" 5 1 300 --die-at 3
run any 3 "$native_app" 5 1 300
untouched
[[ $(grep -c 'SCR_Init: ' "$folder/out") == 3 ]] || fail "SCR_Init fails on three ranks, and says so once on each"

if [[ -n $python_program ]]; then
  begin "Python, which loads the library later" python
  for SCR_FLUSH in 0 10; do
    run any 2 /usr/bin/python3 "$python_program"
    untouched
  done
  export SCR_FLUSH=0
  says '^RESTARTED python step'
fi

begin "linked with the native API, one file of all ranks" together
run 0 2 "$optional" together numbers
says 'linked with the native API'
says '1 files routed .* 1 datasets protected'
grep -q 'This is not data' numbers || fail "the file is at its name, and not in the cache"
run 0 2 "$optional" check numbers
says_not 'linked with the native API'
run 0 2 "$optional" scr
says_not 'files routed|linked with'
run 0 2 "$optional" check numbers

begin "linked with the native API, a file of each rank" each
run 0 2 "$optional" each numbers
says 'linked with the native API'
says '2 files routed'
for rank in 0 1; do
  [[ $(stat -c %s "numbers.1.$rank") == 4000 ]] || fail "the first file of rank $rank is not at its name"
  grep -q 'This is not data' "numbers.2.$rank" || fail "the second file of rank $rank is not in the cache"
done
exit $failed
