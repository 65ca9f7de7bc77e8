#!/bin/bash
# Tests of the virtual cluster, from outside. Needs root, mpicc and Open MPI. Takes about a minute.
#
#   cluster_selftest.sh      prints one line per check and "N passed, N failed"; fails if any failed
set -uo pipefail

here=$(cd -- "${BASH_SOURCE[0]%/*}" && pwd -P)
cluster=$here/cluster
passed=0 failed=0

# Clusters of others on this machine, and their variables, are not to be met.
unset H5SCR_CLUSTER H5SCR_CLUSTER_TIMEOUT
work=$(mktemp -d /var/tmp/h5scr-selftest.XXXXXX) || exit 1
below_tmp=$(mktemp -d "/tmp/h5scr selftest.XXXXXX") || exit 1
export H5SCR_CLUSTER_ROOT=$work
# A background job that is killed before bash has turned it into its command would run the trap, too.
trap '[[ $BASHPID != "$$" ]] || rm -rf -- "$work" "$below_tmp"' EXIT
export probe=$work/probe work

check() { # description expected actual
  if [[ $2 == "$3" ]]; then
    passed=$((passed + 1))
    echo "ok      $1"
  else
    failed=$((failed + 1))
    printf 'FAILED  %s\n  expected: %q\n  but got:  %q\n' "$1" "$2" "$3"
  fi
}

# What a cluster could leave on the machine: interfaces, named namespaces, mounts, state directories,
# and processes that belong to it.
traces() {
  ip -o link | cut -d: -f2
  ip netns
  cut -d' ' -f5- /proc/self/mountinfo
  ls -d "$work"/h5scr-cluster.* 2>/dev/null
  grep -alsz "^H5SCR_CLUSTER=$1" /proc/[0-9]*/environ
  return 0
}
check_clean() { check "$1: nothing is left behind" "$clean" "$(traces "$work")"; }

# A namespace lives as long as a process in it does: prints the processes of our clusters that are in
# another network than this one. (The numbers of namespaces would not do: the kernel gives them out again.)
inside() {
  local file
  grep -alsz "^H5SCR_CLUSTER=$work" /proc/[0-9]*/environ | while read -r file; do
    [[ $(readlink "${file%environ}ns/net") == @("$(readlink /proc/self/ns/net)"|) ]] || echo "$file"
  done
}
# The same once the kernel has had time to end what was killed.
still_inside() {
  for _ in {1..100}; do
    [[ $(inside) ]] || return
    sleep 0.1
  done
  inside
}

# Starts a command in the background, its pid in `job`, and returns when its probe has started to turn.
start_turning() {
  local _
  rm -f "$work/out"
  "$@" >"$work/out" 2>&1 &
  job=$!
  for _ in {1..400}; do
    grep -qs turning "$work/out" && return
    sleep 0.05
  done
  printf '  (%s does not turn)\n' "$*"
}

ranks() { for ((i = 0; i < $1; i++)); do echo "$i node$((i / $2))${3:+ $3}"; done; }

mpicc -O2 -Wall -Wextra "$here/probe.c" -o "$probe" || exit 1
clean=$(traces "$work")

# ---- usage -----------------------------------------------------------------------------------------

check "--help says what it is" "cluster: a virtual cluster of N nodes on one machine, for tests and benchmarks." \
  "$("$cluster" --help | head -n 1)"
mkdir "$work/plain" && cp "$cluster" "$work/plain/cluster" && chmod 755 "$work" "$work/plain"
check "without root, up says so in one line" "cluster: needs root: it makes network, mount and PID namespaces" \
  "$(cd / && setpriv --reuid 65534 --clear-groups "$work/plain/cluster" up 2 2>&1)"
check "run without a cluster says what to do" "cluster: no cluster is up; start one with: cluster up N" \
  "$("$cluster" run hostname 2>&1)"
check "a wrong number of nodes is refused" 2 "$("$cluster" up none 2>/dev/null; echo $?)"

# ---- nodes, ranks and storage ------------------------------------------------------------------------

variables=$("$cluster" up 4)
check "up prints the variables" 0 "$(eval "$variables"; [[ -d $H5SCR_CLUSTER && $H5SCR_NODE_LOCAL && -d $H5SCR_SHARED ]]; echo $?)"
eval "$variables"
check "its processes are inside namespaces" 1 "$(($(inside | wc -l) >= 5))"
check "nodes names the nodes" $'node0\nnode1\nnode2\nnode3' "$("$cluster" nodes)"
check "exec all runs on each" $'node0\nnode1\nnode2\nnode3' "$("$cluster" exec all hostname)"
check "... and fails if one fails" 3 "$("$cluster" exec all sh -c '[ "$(hostname)" != node1 ] || exit 3'; echo $?)"
check "status shows all up" 4 "$("$cluster" status | grep -c ' up 10.77.0.. storage 0 of 256M$')"
check "8 ranks, 2 on each of 4 nodes" "$(ranks 8 2)" "$("$cluster" run -n 8 "$probe" where | sort -n)"
check "--per-node 1 puts one rank on each" "$(ranks 4 1)" "$("$cluster" run --per-node 1 "$probe" where | sort -n)"
check "--per-node 4 exceeds the slots" "$(ranks 6 4)" "$("$cluster" run --per-node 4 -n 6 "$probe" where | sort -n)"
check "mpirun's own mapping works" "$(ranks 4 1)" "$("$cluster" run --map-by ppr:1:node "$probe" where | sort -n)"
check "an exit status comes through" 7 "$("$cluster" run -n 1 sh -c 'exit 7' >/dev/null 2>&1; echo $?)"
check "standard error has no noise" "" "$("$cluster" run hostname 2>&1 >/dev/null)"
check "standard input reaches rank 0" "a word" "$(echo a word | "$cluster" run -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] || cat')"
check "storage is private to each node" "$(ranks 8 2 2)" "$("$cluster" run "$probe" storage | sort -n)"
check "a node keeps its storage between runs" $'rank2\nrank3' "$("$cluster" exec node1 ls "$H5SCR_NODE_LOCAL")"
check "storage of the nodes is not seen outside" "" "$(ls "$H5SCR_NODE_LOCAL")"
check "the shared directory is seen by all" 4 "$("$cluster" exec node0 sh -c 'echo x >$H5SCR_SHARED/file'; "$cluster" run --per-node 1 cat "$H5SCR_SHARED/file" | grep -c x)"
check "/tmp and /dev/shm are private" "" "$("$cluster" exec node0 touch /tmp/mine /dev/shm/mine; "$cluster" exec node1 find /tmp /dev/shm -name mine; find /tmp /dev/shm -maxdepth 1 -name mine)"
check "TMPDIR is the node's /tmp" /tmp "$("$cluster" run -n 1 printenv TMPDIR)"
check "nodes know each other by name" 0 "$("$cluster" exec node0 getent hosts node3 | grep -q '^10.77.0.4 '; echo $?)"
check "nothing outside can be reached" "" "$("$cluster" exec node0 ip route | grep -v '^10.77.0.0/24 ')"
check "SCR_, H5SCR_ and HDF5_ variables reach ranks" "a b c" \
  "$(SCR_X='a' H5SCR_X='b' HDF5_X='c' "$cluster" run -n 1 sh -c 'echo $SCR_X $H5SCR_X $HDF5_X')"
check "ranks start in the caller's directory" "$here" "$(cd "$here" && "$cluster" run -n 1 pwd)"

# ---- failing nodes -----------------------------------------------------------------------------------

start_turning "$cluster" run "$probe" turn 60
"$cluster" kill node2
SECONDS=0
wait $job
status=$?
check "a node killed in a run ends the run in failure" 0 "$((status != 0 && status != 124 ? 0 : 1))"
check "... within 20 s" 1 "$((SECONDS < 20))"
check "status shows the node down" "node2 down" "$("$cluster" status | grep down)"
check "a node that is down is left out" $'0 node0\n1 node0\n2 node1\n3 node1\n4 node3\n5 node3' "$("$cluster" run "$probe" where | sort -n)"
check "exec on it says so" "cluster: node2 is down" "$("$cluster" exec node2 true 2>&1)"
check "the head is reached although a port of its bridge went" 0 \
  "$("$cluster" with 3 -- bash -c 'for n in 0 1; do cluster kill node$n; sleep 0.3; H5SCR_CLUSTER_TIMEOUT=10 cluster run hostname || exit; done' >/dev/null; echo $?)"
"$cluster" revive node2
check "a revived node has empty storage" "" "$("$cluster" exec node2 ls -A "$H5SCR_NODE_LOCAL" /tmp /dev/shm | grep rank)"
check "... the others kept theirs" $'rank6\nrank7' "$("$cluster" exec node3 ls "$H5SCR_NODE_LOCAL")"
check "... and it takes part again" "$(ranks 8 2)" "$("$cluster" run "$probe" where | sort -n)"

start_turning env H5SCR_CLUSTER_TIMEOUT=6 "$cluster" run "$probe" turn 60
"$cluster" kill node1 silent
wait $job
check "a silent loss ends in the timeout" 124 $?
check "... which says so" "cluster: mpirun did not end within 6 s (H5SCR_CLUSTER_TIMEOUT)" "$(grep ^cluster: "$work/out")"
check "... and leaves no rank running" "" "$(grep -alsz "^H5SCR_CLUSTER_RUN=$H5SCR_CLUSTER" /proc/[0-9]*/environ)"
"$cluster" revive node1
check "after it, a revived node takes part again" "$(ranks 8 2)" "$("$cluster" run "$probe" where | sort -n)"
check "all nodes may fail and return" "cluster: all nodes are down" \
  "$(for n in $("$cluster" nodes); do "$cluster" kill "$n"; done; "$cluster" run hostname 2>&1)"
"$cluster" revive all
check "... and run again" "$(ranks 8 2 2)" "$("$cluster" run "$probe" storage | sort -n)"

start_turning "$cluster" run "$probe" turn 60
kill -TERM $job
wait $job
check "TERM ends a run" 143 $?
check "... with its ranks" "" "$(grep -alsz "^H5SCR_CLUSTER_RUN=$H5SCR_CLUSTER" /proc/[0-9]*/environ)"

# ---- two clusters --------------------------------------------------------------------------------------

first=$H5SCR_CLUSTER
(
  unset H5SCR_CLUSTER
  "$cluster" with 3 -- bash -c '
    cluster run $probe storage | sort -n >$work/second
    cluster kill node0
    cluster run $probe where | sort -n >>$work/second
    : >$work/second.ready
    cluster run $probe turn 3' >/dev/null 2>&1
) &
second=$!
"$cluster" run "$probe" turn 2 >/dev/null &
turning=$!
wait $turning
check "two clusters at once: the first runs" 0 $?
wait $second
check "... the second too" 0 $?
check "... each with its own nodes" "$(ranks 6 2 2; echo $'0 node1\n1 node1\n2 node2\n3 node2')" "$(cat "$work/second")"
check "... and the first keeps its own" 4 "$("$cluster" status | grep -c ' up ')"
check "reap leaves a living cluster alone" "$first" "$("$cluster" reap; ls -d "$first")"
"$cluster" down
unset H5SCR_CLUSTER H5SCR_NODE_LOCAL H5SCR_SHARED
check "down ends all namespaces" "" "$(still_inside)"
check_clean "down"

# ---- with ----------------------------------------------------------------------------------------------

check "with passes the status of the command on" 5 "$("$cluster" with 2 -- bash -c 'cluster run hostname >/dev/null; exit 5'; echo $?)"
check_clean "a failing command"
check "with's mktemp makes files all nodes see" 2 "$("$cluster" with 2 --slots 1 -- bash -c 'f=$(mktemp); echo x >$f; cluster run cat $f' | grep -c x)"
check "with --timeout ends a command" 124 "$("$cluster" with 2 --timeout 2 -- bash -c 'cluster run sleep 60' 2>/dev/null; echo $?)"
check_clean "a command that takes too long"
for signal in INT TERM KILL; do
  # bash makes background jobs ignore INT.
  start_turning env --default-signal=INT "$cluster" with 2 -- bash -c 'sleep 61 & cluster run $probe turn 60'
  kill -$signal $job
  wait "$job" 2>/dev/null
  case $signal in
    INT) check "INT ends with" 130 $? ;;
    TERM) check "TERM ends with" 143 $? ;;
    KILL)
      check "kill -9 of with ends its namespaces, by the kernel" "" "$(still_inside)"
      "$cluster" reap 2>/dev/null ;;
  esac
  check_clean "with and $signal"
done
start_turning "$cluster" with 2 -- bash -c 'cluster run $probe turn 60'
disown $job # bash would report its end
kill -KILL $job
sleep 0.5
"$cluster" with 1 -- true 2>/dev/null
check_clean "the next with, after kill -9"

variables=$("$cluster" up 2)
rm -rf "$(eval "$variables"; echo "$H5SCR_CLUSTER")"
for _ in {1..100}; do
  [[ $(inside) ]] || break
  sleep 0.1
done
check_clean "a state directory removed by hand"

# ---- places ----------------------------------------------------------------------------------------------

mkdir -p "$below_tmp/tests/cluster" "$below_tmp/build"
cp "$cluster" "$below_tmp/tests/cluster/" && cp "$probe" "$below_tmp/build/"
check "sources and build below /tmp, with a space" "$(ranks 4 2 2)" \
  "$(cd "$below_tmp/build" && ../tests/cluster/cluster with 2 -- cluster run ./probe storage 2>&1 | sort -n)"
check "a cluster within a cluster's command" "$(ranks 2 2)" \
  "$(cd "$below_tmp/build" && ../tests/cluster/cluster with 1 -- cluster with 1 -- cluster run ./probe where 2>&1 | sort -n)"
check "state below /tmp is refused" "cluster: H5SCR_CLUSTER_ROOT is /tmp, but nodes have their own /tmp and /dev/shm" \
  "$(H5SCR_CLUSTER_ROOT=/tmp "$cluster" up 1 2>&1)"
check "a file in /tmp made after up" "$(ranks 4 2)" \
  "$(cd / && "$cluster" with 2 -- sh -c 'f="$1-late"; cp $probe "$f"; cluster run "$f" where; rm "$f"' sh "${below_tmp// /}" | sort -n)"
check_clean "below /tmp"

# ---- light -----------------------------------------------------------------------------------------------

"$cluster" with 4 --light -- bash -c '
  cluster run -n 8 $probe storage | sort -n >$work/storage
  cluster run --per-node 1 --mca btl self,vader --mca btl_base_verbose 100 $probe bandwidth >$work/bandwidth 2>&1
  cluster exec node3 hostname >$work/exec
  rm -f $work/out
  cluster run $probe turn 60 >$work/out 2>&1 &
  for i in {1..400}; do grep -qs turning $work/out && break; sleep 0.05; done
  cluster kill node2
  wait $!
  echo $? >$work/killed
  cluster run $probe where | sort -n >$work/without
  cluster revive node2
  cluster exec node2 ls $H5SCR_NODE_LOCAL >$work/revived
  cluster run --per-node 3 $probe where | sort -n >$work/again
  cluster exec node0 ls $H5SCR_CLUSTER/segments >$work/segments
'
check "light: with ends well" 0 $?
check "light: hostnames and private storage" "$(ranks 8 2 2)" "$(cat "$work/storage")"
check "light: exec" node3 "$(cat "$work/exec")"
check "light: ranks of different nodes speak over vader" 12 "$(grep -c 'Using vader btl for send to' "$work/bandwidth")"
echo "        ($(grep 'MB/s' "$work/bandwidth") between two nodes)"
check "light: a killed node ends the run in failure" 1 "$(($(cat "$work/killed") != 0))"
check "light: ... is left out" $'0 node0\n1 node0\n2 node1\n3 node1\n4 node3\n5 node3' "$(cat "$work/without")"
check "light: ... and returns empty" "" "$(cat "$work/revived")"
check "light: --per-node" "$(ranks 12 3)" "$(cat "$work/again")"
check "light: no shared-memory segment is left" "" "$(cat "$work/segments")"
check_clean "light"

echo "$passed passed, $failed failed"
((failed == 0))
