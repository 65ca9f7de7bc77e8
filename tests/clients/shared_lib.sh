# Common parts of the tests with one shared file per checkpoint, on top of those of all clients.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

plain_reference() {
  begin_client "the result without h5scr"
  reference=$SCR_PREFIX
  plain_client "$examples/heat_parallel" 60 10 heat.pgm
  expect_status 0
  expect_line "done: 60 steps"
}

# Picture and every checkpoint, byte for byte.
same_as_reference() { # [checkpoint...]
  local file
  (($#)) || set -- "$reference"/ckpt_*.h5
  expect_same_file heat.pgm "$reference/heat.pgm"
  for file; do expect_same_file "$(basename "$file")" "$reference/$(basename "$file")"; done
}

# Runs until the checkpoint of step 30 is in the cache, and only there; then the nodes are killed. The
# name of a file is there when it is closed, and it is protected before the next one is begun.
run_and_lose() { # node...
  local node program=${program:-heat_parallel} suffix=${suffix:-h5}
  export SCR_FLUSH_ASYNC_BW=1
  (
    for ((i = 0; i < 900; i++)); do
      [[ -e ckpt_0040.$suffix ]] && break
      sleep 0.05
    done
    for node; do cluster kill "$node"; done
  ) &
  local killer=$!
  client "$examples/$program" 60 10 heat.pgm 50
  wait $killer
  [[ $status != 0 ]]
  check $? "the run must have failed with its node"
  unset SCR_FLUSH_ASYNC_BW
}
