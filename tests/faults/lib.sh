# Common parts of the fault tests. A test sources this file inside `cluster with`, calls `begin` for each
# case, `app` to run native_app, and `expect_*` to say what must have come of it; `finish` ends it.
#
#   $1 of every test    the folder that holds native_app
#   $per_node, $ranks   how `app` starts it
#   $out, $status       what the last `app` printed (both streams) and its exit status

bin=$(cd "$1" && pwd)
shift
passed=0 failed=0 case_name="" job=0 per_node=2 ranks=8
export OMPI_MCA_mpi_yield_when_idle=1
export H5SCR_CLUSTER_TIMEOUT=${H5SCR_CLUSTER_TIMEOUT:-60}
export SCR_FLUSH=0 SCR_FETCH=0 # the cache alone: what it loses must not come back from the prefix directory
export SCR_DEBUG=1 SCR_CNTL_BASE=$H5SCR_NODE_LOCAL SCR_CACHE_BASE=$H5SCR_NODE_LOCAL
exec </dev/null  # nothing below a loop may read the loop's input

# A new case: its own prefix directory and job, all nodes up, none of the variables of the case before.
begin() { # text
  case_name=$1
  job=$((job + 1))
  unset SCR_COPY_TYPE SCR_SET_SIZE SCR_SET_FAILURES SCR_CONF_FILE SCR_CACHE_SIZE SCR_FAULT SCR_GROUP
  export SCR_JOB_ID=$job SCR_PREFIX=$H5SCR_SHARED/run.$job
  record=$SCR_PREFIX/record
  mkdir -p "$SCR_PREFIX"
  cd "$SCR_PREFIX" || exit 1
  cluster revive all
  cluster exec all rm -rf "$H5SCR_NODE_LOCAL/root"
  per_node=2 ranks=8
  echo "--- $case_name"
}

lose() { # node-number...
  local node
  for node; do cluster kill "node$node"; done
}

# Kills nodes and brings them back empty: their storage is lost, but there are enough nodes.
wipe() { # node-number...
  lose "$@"
  local node
  for node; do cluster revive "node$node"; done
}

# Runs native_app on the given nodes, in this order, rank by rank. "0:3 1" are three ranks on node0 and
# $per_node on node1; "any" are the first nodes that are up.
app() { # nodes argument...
  local where=() hosts="" node program=$bin/native_app
  if [[ $1 != any ]]; then
    for node in $1; do
      [[ $node == *:* ]] || node+=:$per_node
      hosts+=${hosts:+,}node$node
    done
    where=(-host "$hosts")
  fi
  shift
  out=$(cluster run --per-node "${slots:-$per_node}" "${where[@]}" -n "$ranks" "$program" "$@" 2>&1 </dev/null)
  status=$?
}

# --- what must be ------------------------------------------------------------------------------------------

ok() { passed=$((passed + 1)); }

# Shows the output of a run once, however many expectations it fails.
not_ok() { # text
  failed=$((failed + 1))
  echo "FAIL: $case_name: $1"
  [[ $out == "${shown:-}" ]] && return
  shown=$out
  echo "  status $status, output:"
  grep -vE '^ *$|^-*$|^\*\*\*' <<<"$out" | head -n 30 | sed 's/^/  | /'
}

check() { # condition-status text
  if (($1 == 0)); then ok; else not_ok "$2"; fi
}

expect_status() {
  [[ $status == "$1" ]]
  check $? "expected exit status $1$([[ $status == 124 ]] && echo ' (it hung until the timeout)')"
}

expect_line() { # a line of exactly this text
  grep -qxF -- "$1" <<<"$out"
  check $? "expected the line '$1'"
}

expect_text() { # extended regular expression
  grep -qE -- "$1" <<<"$out"
  check $? "expected a text like '$1'"
}

expect_no_text() {
  ! grep -qE -- "$1" <<<"$out"
  check $? "there must be no text like '$1'"
}

# The run came to its end, from that step on (0: fresh).
expect_restart() { # step
  local line="RESTARTED $1"
  (($1 == 0)) && line=FRESH
  if [[ $status == 0 ]] && grep -qxF "$line" <<<"$out" && grep -q '^DONE' <<<"$out"; then
    ok
  else
    not_ok "expected '$line' and a good end"
  fi
}

# No hang, no wrong data, whatever else happened.
expect_harmless() {
  if [[ $status != 124 ]] && ! grep -qE 'WRONG|DISAGREE|although it must not|cannot open a restart' <<<"$out"; then
    ok
  else
    not_ok "a hang, wrong data or ranks that disagree"
  fi
}

# The newest step in the record that native_app --record keeps. Call it before the run that is to find it,
# since that run writes to the record too.
last_recorded() {
  if [[ -s $record ]]; then tail -n 1 "$record"; else echo 0; fi
}

# The run restarted from this step or a newer one.
expect_newest() { # step
  local step
  step=$(sed -n 's/^RESTARTED \([0-9]*\)$/\1/p' <<<"$out")
  if [[ $status == 0 && ${step:-0} -ge $1 ]]; then
    ok
  else
    not_ok "expected a restart from step $1 or a newer one, but got '${step:-none}'"
  fi
}

finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0))
}

# --- damage --------------------------------------------------------------------------------------------------

# Files of this job's cache and control directory on a node that match a find expression.
files_on() { # node-number find-argument...
  local node=$1
  shift
  cluster exec "node$node" find "$H5SCR_NODE_LOCAL/root/scr.$SCR_JOB_ID" -type f "$@" | sort
}

# Flips a bit of the byte at an offset (negative: from the end) in a file of a node.
flip() { # node-number file offset
  cluster exec "node$1" bash -c '
    file=$1 offset=$2
    size=$(stat -c %s "$file")
    ((offset < 0)) && offset=$((size + offset))
    ((offset >= 0 && offset < size)) || { echo "flip: no byte $offset in $file of $size" >&2; exit 1; }
    byte=$(od -An -tu1 -j "$offset" -N 1 "$file")
    printf "\\x$(printf %02x $((byte ^ 64)))" | dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
  ' flip "$2" "$3" || not_ok "could not damage $2 on node$1"
}

# Flips a byte in the first file of a node that matches.
damage() { # node-number offset find-argument...
  local node=$1 offset=$2 file
  shift 2
  file=$(files_on "$node" "$@" | head -n 1)
  if [[ -z $file ]]; then
    not_ok "no file on node$node matches $*"
  else
    flip "$node" "$file" "$offset"
  fi
}
