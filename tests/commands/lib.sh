# Common parts of the tests of scr_run and its kin, on top of the clients' tests.
#
# scr_run runs on the head of the cluster, which reaches all nodes, as on a login node (--outside).

source "$(dirname "${BASH_SOURCE[0]}")/../clients/lib.sh"
export SCR_REMOTE_SHELL=$H5SCR_CLUSTER/bin/cluster-agent
export SCR_LOG_ENABLE=1 SCR_LOG_SYSLOG_ENABLE=0 SCR_DEBUG=0

# A new case with all nodes up; `ranks` of the program, two on each node.
begin_run() { # text
  begin_client "$1"
  unset SCR_RUNS SCR_MIN_NODES SCR_EXCLUDE_NODES SCR_WATCHDOG_TIMEOUT SCR_END_TIME SCR_HALT_SECONDS SCR_NODELIST
}

# scr_run with mpirun over the nodes of the hostfile. $run_options are options of scr_run.
scr_run_mpi() { # program argument...
  local options
  read -ra options <<<"${run_options:-}"
  out=$(cluster head timeout -k 5 "${limit:-100}" scr_run --outside --wait 0 "${options[@]}" -- \
    mpirun --hostfile "$H5SCR_CLUSTER/hostfile" -n "$ranks" "$@" 2>&1)
  status=$?
}

# Does something once a condition holds, in the background: `when COMMAND -- COMMAND`; wait for $waiter.
when() {
  local condition=()
  while [[ $1 != -- ]]; do condition+=("$1"); shift; done
  shift
  (
    for ((i = 0; i < 1200; i++)); do
      "${condition[@]}" >/dev/null 2>&1 && break
      sleep 0.05
    done
    "$@" >/dev/null
  ) &
  waiter=$!
}

# Lines of the event log that match, as "event phase note".
story() { # extended regular expression
  sed -n 's/.*"event":"\([^"]*\)","phase":"\([^"]*\)".*/\1 \2 &/p' .scr/log.jsonl | grep -E "$1"
}

expect_story() { # count extended-regular-expression
  local found
  found=$(story "$2" | wc -l)
  ((found == $1))
  check $? "the log must have $1 lines like '$2', and has $found"
}

expect_current() { # name
  local current
  current=$(scr_index --json 2>/dev/null | tr -d '\n' |
    sed -n 's/.*"name": "\([^"]*\)"[^{}]*"current": true.*/\1/p')
  [[ $current == "$1" ]]
  check $? "the current checkpoint must be '$1', and is '$current'"
}
