# scr_transfer on the nodes of the virtual cluster. Expects $commands (the folder that holds it) and what
# ../faults/lib.sh sets.

# Before the program, as a launcher would; they wait for the control directory, and end when it is removed.
start_daemons() {
  local node
  for node in $(cluster nodes); do
    cluster exec "$node" "$commands/scr_transfer" --poll 0.1 "$H5SCR_NODE_LOCAL/root/scr.$SCR_JOB_ID" \
      >>"$SCR_PREFIX/daemon.$node" 2>&1 &
  done
}

# Kills the daemon of a node without a word.
kill_daemon() { # node
  cluster exec "$1" bash -c 'for p in /proc/[0-9]*; do
    [[ $(cat "$p/comm" 2>/dev/null) == scr_transfer ]] && kill -9 "${p#/proc/}"; done; true'
}
