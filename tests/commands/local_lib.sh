# Common parts of the tests of commands. Each runs in a folder of its own.
#   $1 of every test    the build folder
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
export PATH=$build/bin:$PATH
for name in $(compgen -e SCR_) HDF5_DRIVER HDF5_DRIVER_CONFIG HDF5_PLUGIN_PATH HDF5_USE_FILE_LOCKING; do unset "$name"; done
cd "$work" || exit 1

ok() { passed=$((passed + 1)); }
not_ok() {
  failed=$((failed + 1))
  echo "FAIL: $*" | head -n 40
}

# run STATUS COMMAND...: the command must end with that status; its output is $out.
run() {
  local expected=$1 status
  shift
  "$@" > "$work/stdout" 2> "$work/stderr"
  status=$?
  out=$(cat "$work/stdout" "$work/stderr")
  if [[ $status == "$expected" ]]; then ok; else not_ok "'$*' ended with $status instead of $expected: $out"; fi
}

# The output of the last run has a line that matches, or none.
has() { if grep -qE -- "$1" <<<"$out"; then ok; else not_ok "no line like '$1' in: $out"; fi; }
has_not() { if grep -qE -- "$1" <<<"$out"; then not_ok "a line like '$1' in: $out"; else ok; fi; }
# What it wrote to standard output is JSON for which a Python expression of `data` holds.
json() {
  if python3 -c "import json, sys; data = json.load(open(sys.argv[1])); sys.exit(0 if ($1) else 1)" "$work/stdout" 2> "$work/json.error"; then
    ok
  else
    not_ok "'$1' does not hold: $(tail -n 1 "$work/json.error") in: $out"
  fi
}

finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}
