#!/usr/bin/env bash
# The range service between two virtual nodes: node1 reads files that only node0 has, and says so when
# node0 is gone.
#   range_service.sh RANGE_NODE      inside `cluster with 2`
set -uo pipefail
program=$1
shared=$H5SCR_SHARED/range
private=$H5SCR_NODE_LOCAL/range
failed=0
exec </dev/null

check() { # status text
  if (($1 == 0)); then
    echo "ok: $2"
  else
    echo "FAILED: $2"
    failed=1
  fi
}

mkdir -p "$shared/expected"
head -c 20000000 /dev/urandom >"$shared/expected/0"
head -c 12345 /dev/urandom >"$shared/expected/1"
: >"$shared/expected/2"
cluster exec node0 bash -c "mkdir -m 700 $private && cp $shared/expected/* $private"
cluster exec node0 "$program" serve "$private" "$shared" >"$shared/server.log" 2>&1 &
for ((i = 0; i < 600; i++)); do
  [[ -f $shared/endpoint ]] && break
  sleep 0.1
done
[[ -f $shared/endpoint ]]
check $? "the server runs: $(cat "$shared/endpoint" "$shared/server.log" 2>&1)"
grep -q '^node0 10\.' "$shared/endpoint"
check $? "it listens at the address of its node, not at the loopback"

cluster exec node1 test ! -e "$private/0"
check $? "node1 does not have the files itself"
for id in 0 1 2; do
  cluster exec node1 "$program" read "$shared" $id "$shared/copy.$id"
  check $? "node1 reads file $id"
  cmp "$shared/expected/$id" "$shared/copy.$id"
  check $? "its bytes are those of node0"
done

pids=()
for ((i = 0; i < 6; i++)); do
  cluster exec node1 "$program" read "$shared" 0 "$shared/many.$i" &
  pids+=($!)
done
for ((i = 0; i < 6; i++)); do
  wait "${pids[i]}" && cmp "$shared/expected/0" "$shared/many.$i"
  check $? "process $i of six at once reads the same bytes"
done

out=$(cluster exec node1 "$program" read "$shared" 77 "$shared/none" 2>&1)
[[ $? -ne 0 && $out == *'no file is published under the id 0x4d'* ]]
check $? "an unknown id is refused: $out"
cp "$shared/key" "$shared/key.right"
head -c 32 /dev/urandom >"$shared/key"
out=$(cluster exec node1 "$program" probe "$shared" 2>&1)
[[ $? -ne 0 && $out == *'refuses our key'* ]]
check $? "another key is refused: $out"
cp "$shared/key.right" "$shared/key"
cluster exec node1 "$program" probe "$shared"
check $? "the right key is good"

cluster kill node0 silent
out=$(cluster exec node1 timeout 60 "$program" probe "$shared" 2>&1)
[[ $? -eq 1 && $out == *"node 'node0'"*'does not answer'* ]]
check $? "a node that is lost without a word is reported: $out"
exit $failed
