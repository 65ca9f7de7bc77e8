#!/usr/bin/env bash
# Options of commands that no other test uses, on a job of one machine: two ranks, three checkpoints in the cache, the
# second of them in the prefix directory; then the program was killed.
#   options.sh BUILD_DIR
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/local_lib.sh"
user=$(id -un)
mkdir prefix cache
export SCR_PREFIX=$work/prefix SCR_CNTL_BASE=$work/cache SCR_CACHE_BASE=$work/cache SCR_JOB_ID=options SCR_CACHE_SIZE=4
export SCR_FLUSH=2 SCR_NODELIST=$(hostname) SCR_LOG_SYSLOG_ENABLE=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# What runs a command on a node, here on this machine: AGENT HOST WORD...
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' > agent
chmod +x agent
export SCR_REMOTE_SHELL=$work/agent
cd prefix || exit 1
SCR_LOG_ENABLE=1 mpiexec -n 2 "$build/tests/native_app" 5 1 2000 --die-at 4 > "$work/app.out" 2>&1
cd ..
cntl=$work/cache/$user/scr.options

echo "-- hosts and nodes"
run 0 scr_glob_hosts --compress 'n1,n2,n3,n07,n5'
has '^n\[1-3,5\],n07$|^n\[1-3\],n07,n5$|^n\[1-3,07,5\]$'
run 0 scr_glob_hosts -z 'a[1-3],a4'
has '^a\[1-4\]$'
run 0 scr_glob_hosts --json --expand 'n[09-10],m'
json 'data == ["n09", "n10", "m"]'
run 0 scr_check_node --cntl "$work/cache:1MB" --free
has PASS
run 0 scr_check_node --json --cntl "$work/cache"
json 'data["ok"] is True'
run 1 scr_check_node --json --cntl "$work/no/such"
json 'data["ok"] is False and "/no/such" in str(data)'
run 1 scr_check_node --cntl "$work/cache:9000000TB" --free
has 'FAIL.*free|free.*FAIL'
run 0 scr_list_down_nodes --no-ping --timeout 20 "$(hostname)"
run 0 scr_list_down_nodes --no-ping --free "$(hostname)"
run 1 scr_list_down_nodes --no-ping --json --down n7 "$(hostname),n7"
json 'len(data) == 1 and data[0]["node"] == "n7" and "given as down" in str(data[0])'
SCR_LOG_ENABLE=1 run 1 scr_list_down_nodes --no-ping --log --down n8 "$(hostname),n8"
run 0 tail -n 1 "$SCR_PREFIX/.scr/log.jsonl"
has '"event":"node failure".*"n8"'
run 0 scr_env --down
has_not '[a-z]'
printf '#!/bin/sh\nexec sleep 20\n' > sleeper
chmod +x sleeper
SCR_REMOTE_SHELL=$work/sleeper run 1 scr_list_down_nodes --no-ping --timeout 0.5 --reason othernode
has 'othernode: .*no answer in time'
run 0 scr_cntl_dir --prefix "$SCR_PREFIX"
has "^$cntl\$"
run 0 scr_cntl_dir --json
json "'$cntl' in str(data)"
run 0 scr_nodes_file --dir "$cntl"
has '^1$'
run 0 scr_nodes_file --json --dir "$cntl"
json 'data == {"nodes": 1}'

echo "-- the flush file"
run 0 scr_flush_file --list-ckpt
has '^1$'
has '^3$'
run 0 scr_flush_file --list-output
has_not '[0-9]'
run 0 scr_flush_file --json --list-ckpt
json 'len(data) == 3'
run 1 scr_flush_file --need-flush 2
run 0 scr_flush_file --need-flush 3

run 3 scr_flush_file --dir "$work/agent"
has "cannot use '$work/agent': Not a directory"
run 0 scr_flush_file --dir "$work/none"

echo "-- hash files"
run 0 scr_print_hash_file --tree "$SCR_PREFIX/.scr/index.scr"
has '\+- '
run 0 scr_print_hash_file --json "$SCR_PREFIX/.scr/index.scr"
json 'isinstance(data, dict) and len(data) > 0'
run 0 scr_print_hash_file --indent 7 "$SCR_PREFIX/.scr/index.scr"
has '^ {7}[^ ]'
run 2 scr_print_hash_file --indent 17 "$SCR_PREFIX/.scr/index.scr"

echo "-- halt"
run 0 scr_halt --prefix "$SCR_PREFIX" --after +10m --checkpoints 3
run 0 scr_halt --prefix "$SCR_PREFIX" --list
has 'ExitAfter'
run 0 scr_halt --prefix "$SCR_PREFIX" --unset-after
run 0 scr_halt --prefix "$SCR_PREFIX" --list --json
json '"3" in str(data) and "after" not in str(data).lower()'
run 0 scr_halt --prefix "$SCR_PREFIX" --reason enough --immediate
run 0 scr_retries_halt --prefix "$SCR_PREFIX"
has 'enough'
run 0 scr_retries_halt --json --prefix "$SCR_PREFIX"
json 'data["halt"] is True and "enough" in data["reason"]'
run 0 scr_halt --prefix "$SCR_PREFIX" --remove
run 1 scr_retries_halt --json --prefix "$SCR_PREFIX"
json 'data == {"halt": False}'

# Days that the month does not have, and numbers that are none.
run 2 scr_halt --prefix "$SCR_PREFIX" --before 2026-02-30
has "'2026-02-30' is not a time"
run 2 scr_halt --prefix "$SCR_PREFIX" --checkpoints 0
has "--checkpoints: '0' is not a number above 0"
run 2 scr_halt --prefix "$SCR_PREFIX" --seconds -1
has "--seconds: '-1' is not a number of 0 or more"
run 2 scr_halt --prefix "$SCR_PREFIX" --seconds nan
# A halt file that nobody can read is told with what takes it away.
for damage in 'echo garbage >' mkfifo; do
  rm "$SCR_PREFIX/.scr/halt.scr"
  eval "$damage $SCR_PREFIX/.scr/halt.scr"
  run 1 timeout 60 scr_halt --prefix "$SCR_PREFIX" --checkpoints 3
  has "halt.scr.*'scr_halt --unset' takes it away"
  SCR_JOB_ID=halted run 4 timeout 60 mpiexec -n 1 "$build/tests/native_app" 1 1 100
  has "halt.scr.*'scr_halt --unset' takes it away"
  run 0 timeout 60 scr_halt --prefix "$SCR_PREFIX" --unset
  has 'the halt file was damaged, and is made anew: .*halt.scr'
  run 0 timeout 60 scr_halt --prefix "$SCR_PREFIX" --list
  has_not 'damaged|CheckpointsLeft'
done

echo "-- the log"
run 0 scr_log_event --prefix "$SCR_PREFIX" --type flush --dset 2 --name 'step 2' --secs 1.5 --bytes 4000 --files 2 --failed \
  --note 'by hand' --jobid options --run tester
run 0 cat "$SCR_PREFIX/.scr/log.jsonl"
has '"event":"flush".*by hand'
run 0 python3 -c 'import json, sys
event = [json.loads(line) for line in open(sys.argv[1])][-1]
print(json.dumps(event))' "$SCR_PREFIX/.scr/log.jsonl"
json 'data["files"] == 2 and data["bytes"] == 4000 and "tester" in str(data) and data.get("ok") in (False, 0)'
run 0 scr_ckpt_interval --prefix "$SCR_PREFIX" --cost 50 --mtbf 10000 --restart 100 --json
json 'data["daly_seconds"] > 0 and "100" in str(data)'

run 2 scr_ckpt_interval --prefix "$SCR_PREFIX" --cost 0
has "--cost: '0' is not a number above 0"
run 2 scr_ckpt_interval --prefix "$SCR_PREFIX" --cost nan --mtbf 10000
for wrong in '-L -5' '-L nan' '-B -1' '-F -1'; do
  # shellcheck disable=SC2086
  run 2 scr_log_event --prefix "$SCR_PREFIX" --type flush $wrong
  has 'is not a number of 0 or more'
done
run 1 scr_log_event --prefix "$work/none" --type flush
has "$work/none': No such file"
[[ ! -e none ]] && ok || not_ok "scr_log_event made a prefix directory"
run 0 scr_log_event --prefix "$SCR_PREFIX" --type 'node failure' --down 'n[3-4]' --failed --jobid options
run 0 tail -n 1 "$SCR_PREFIX/.scr/log.jsonl"
json 'data["down_nodes"] == ["n3", "n4"] and data["ok"] is False'
run 0 scr_ckpt_interval --prefix "$SCR_PREFIX" --job options --cost 50 --mtbf 10000 --json
json 'data["daly_seconds"] > 0'
run 0 scr_report --prefix "$SCR_PREFIX" --mtbf 4321 --json
json '"4321" in str(data)'
run 2 scr_report --prefix "$SCR_PREFIX" --output "$work/adir/"
has "adir/' names a directory"
[[ ! -e adir ]] && ok || not_ok "scr_report wrote to the name of a directory"
SCR_JOB_ID=options run 0 scr_report --prefix "$SCR_PREFIX" --json
json '"runs" in data and "bandwidth" in data'
echo "-- ready to run"
run 0 scr_prerun --prefix "$SCR_PREFIX"
run 0 scr_test_runtime --prefix "$SCR_PREFIX" --json
json 'isinstance(data, dict)'
run 0 scr_test_runtime --prefix "$SCR_PREFIX" --quiet
[[ ! -s $work/stdout ]] && ok || not_ok "--quiet printed: $out"

echo "-- scr_run"
run 0 scr_run --outside --check --hdf5 none -- mpiexec -n 2 "$build/tests/native_app" 1 1 100
has 'native_app'
has "files that are created for writing below $SCR_PREFIX"
has 'runs at most: 1$'
# What is routed, where, and which losses it survives.
nodes4="$(hostname),n[2-4]"
SCR_NODELIST=$nodes4 SCR_COPY_TYPE=XOR SCR_SET_SIZE=3 \
  run 0 scr_run --check --runs 5 --hdf5 none -- mpiexec -n 2 "$build/tests/native_app" 1 1 100
has 'runs at most: 5$'
# As they are formed: four nodes make no set of three.
has "XOR in $work/cache/$user/scr.options: survives the loss of one node in each set of 2"
SCR_NODELIST="$nodes4,n5" SCR_COPY_TYPE=XOR SCR_SET_SIZE=3 \
  run 0 scr_run --check --hdf5 none -- mpiexec -n 2 "$build/tests/native_app" 1 1 100
has 'XOR in .*: survives the loss of one node in each set of 2 or 3'
SCR_NODELIST="$(hostname),n2" SCR_COPY_TYPE=RS SCR_SET_FAILURES=3 \
  run 0 scr_run --check --hdf5 none -- mpiexec -n 2 "$build/tests/native_app" 1 1 100
has 'RS in .*: survives the loss of one node in each set of 2'
cat > "$SCR_PREFIX/.scrconf" <<CONF
ROUTE=ckpt_*.h5 TYPE=CKPT
ROUTE=*.out TYPE=OUTPUT
CONF
SCR_NODELIST=$nodes4 SCR_COPY_TYPE=RS SCR_SET_SIZE=4 SCR_SET_FAILURES=2 \
  run 0 scr_run --check --runs -1 --hdf5 none -- mpiexec -n 2 "$build/tests/native_app" 1 1 100
has 'files like ckpt_\*\.h5: CKPT'
has 'files like \*\.out: OUTPUT'
has 'all else as without h5scr'
has 'RS in .*: survives the loss of 2 nodes in each set of 4'
has 'no limit of runs'
SCR_NODELIST=$nodes4 SCR_COPY_TYPE=RS SCR_SET_SIZE=4 SCR_SET_FAILURES=2 \
  run 0 scr_run --check --json --runs 5 --hdf5 none -- mpiexec -n 2 "$build/tests/native_app" 1 1 100
json 'data["ok"] and data["runs"] == 5 and len(data["nodes"]) == 4 and data["routes"][0] == {"pattern": "ckpt_*.h5", "type": "CKPT"}'
json 'data["redundancy"][0]["type"] == "RS" and "2 nodes in each set of 4" in data["redundancy"][0]["survives"]'
json 'data["command"][0] == "mpiexec"'
run 2 scr_run --json -- true
# What is no option is not left out, wherever it is before the command.
run 2 scr_run --no-postrn -- true
has '--no-postrn'
run 2 scr_run --bogus --runs 2 -- true
has '--bogus'
run 2 scr_run --check --bogus -- true
has '--bogus'
run 2 scr_run --runz 3 -- true
has '--runz'
run 2 scr_run --check ---bogus -- true
has "'---bogus' is neither an option of scr_run nor a program"
run 2 scr_run --check -- --bogus
has "'--bogus' is neither"
run 2 scr_run --check
has 'which program'
run 2 scr_run --wait nan --no-postrun -- true
has "--wait: 'nan' is not a number from 0 to 1e\+06"
run 2 scr_run --wait -1 --no-postrun -- true
# What follows the program's name is the program's.
run 0 scr_run --outside --check --hdf5 none sh --bogus --runs 7
has '^  sh --bogus --runs 7$'
# Two nodes of one power supply fail together.
cat > "$SCR_PREFIX/.scrconf" <<CONF
GROUPS=$(hostname) POWER=a
GROUPS=n2 POWER=a
GROUPS=n3 POWER=b
GROUPS=n4 POWER=b
CKPT=0 INTERVAL=1 GROUP=POWER STORE=$work/cache TYPE=XOR
CONF
SCR_NODELIST=$nodes4 run 0 scr_run --check --hdf5 none -- mpiexec -n 2 "$build/tests/native_app" 1 1 100
has 'survives the loss of one POWER group in each set of 2'
SCR_NODELIST="$(hostname),n2" run 0 scr_run --check --hdf5 none -- mpiexec -n 2 "$build/tests/native_app" 1 1 100
has 'survives no loss: there is one POWER group, so nobody else can keep a copy'
rm "$SCR_PREFIX/.scrconf"
run 125 scr_run --outside --no-postrun --hdf5 none -- mpiexec -n 1 /no/such/program
has 'not started: see above, or use --force'
run 125 scr_run --outside --force --runs 1 --no-postrun --hdf5 none -- /no/such/program
has "cannot start '/no/such/program': No such file"
# Its own node is one of those that are down.
SCR_NODELIST="$(hostname),other" SCR_EXCLUDE_NODES=$(hostname) SCR_MIN_NODES=1 \
  run 125 scr_run --no-postrun --hdf5 none -- sh -c 'echo it runs'
has "not started: this node, $(hostname), is one of those that are down"
has_not 'it runs'
# A halt that is set while it waits between two runs, a minute if nobody says how long.
(
  for _ in $(seq 600); do grep -q 'starting again in' "$work/stderr" && break; sleep 0.1; done
  scr_halt --prefix "$SCR_PREFIX" --reason 'no more'
) > /dev/null 2>&1 &
halting=$!
SCR_JOB_ID=waits run 9 scr_run --outside --runs 3 --no-postrun --hdf5 none -- sh -c "echo started >> $work/waits; exit 9"
wait $halting
has 'starting again in 60 seconds'
has 'not started again: .*no more'
[[ $(wc -l < waits) == 1 ]] && ok || not_ok "it was started $(wc -l < waits) times"
run 0 scr_halt --prefix "$SCR_PREFIX" --remove
SCR_CURRENT=chosen SCR_JOB_ID=other run 7 scr_run --outside --runs 2 --wait 0 --no-postrun --hdf5 none -- \
  sh -c "echo started by \$SCR_CURRENT. >> $work/starts; exit 7"
has_not 'scr_postrun'
[[ $(< starts) == $'started by chosen.\nstarted by .' ]] && ok || not_ok "SCR_CURRENT is for the first run, not: $(< starts)"
[[ $(wc -l < starts) == 2 ]] && ok || not_ok "--runs 2 started it $(wc -l < starts) times"
# The program sees the daemon's lock in the control directory.
SCR_JOB_ID=other run 0 scr_run --outside --runs 1 --transfer --no-postrun --hdf5 none -- sh -c "
  mkdir -p $work/cache/$user/scr.other
  for i in \$(seq 80); do ls $work/cache/$user/scr.other/transfer_daemon.* && exit 0; sleep 0.1; done
  exit 9"
# What is no directory will not become one.
run 1 timeout 60 scr_transfer "$work/agent"
has "agent.*Not a directory"
run 1 timeout 60 scr_transfer "$work/agent/control"
sleep 60 & sleeping=$!
SCR_RUN_ID=someone sleep 60 & marked=$!
run 0 scr_end_run --list someone
has "^$marked\$"
has_not "^$sleeping\$"
kill $sleeping $marked

echo "-- what is in the cache only"
run 0 scr_index -p "$SCR_PREFIX" --extract 1 --to "$work/extracted"
[[ $(find extracted -type f | wc -l) == 2 ]] && ok || not_ok "not the files of two ranks: $(find extracted)"
# With the files of a rank on another node, of which this one knows nothing.
mv "$cntl"/filemap_*_1.scrinfo .
run 1 scr_index -p "$SCR_PREFIX" --extract 1 --to "$work/half"
has "the files of rank 1 of dataset 1 .*scr_scavenge --id 1"
[[ ! -e half ]] && ok || not_ok "half of a dataset was extracted"
mv filemap_*_1.scrinfo "$cntl"

echo "-- what is in the cache only is saved"
run 0 scr_copy --json --cntldir "$cntl" --prefix "$SCR_PREFIX"
json 'len(data["datasets"]) == 4 and data["problems"] == [] and data["datasets"][0]["ranks"] == "0-1" and data["datasets"][1]["in_prefix"]'
run 0 scr_scavenge --prefix "$SCR_PREFIX" --user "$user" --jobid options --nodes "$(hostname)" --timeout 20 --copy-timeout 60 --id 1 --quiet
run 0 scr_index -p "$SCR_PREFIX" --verify 1
run 0 scr_copy --cntldir "$cntl" --prefix "$SCR_PREFIX" --id 1 --dir scr.dataset.1 --mark
run 1 scr_flush_file --need-flush 1
# One that is there already, on a node that is said to be down; nobody has the prefix directory.
run 0 scr_scavenge --prefix "$SCR_PREFIX" --jobid options --jobset "$(hostname),gone" --down gone --wait 0 --timeout 20 --id 1 --json
json '[one["state"] for one in data["datasets"]] == ["there"]'
run 0 scr_postrun --prefix "$SCR_PREFIX" --user "$user" --jobid options --jobset "$(hostname)" --timeout 20 --copy-timeout 60
has 'dataset 3 .*saved'
run 0 scr_postrun --prefix "$SCR_PREFIX" --jobid options --nodes "$(hostname)" --timeout 20 --quiet --json
json 'data["datasets"] == []'
run 0 scr_index -p "$SCR_PREFIX" --verify-all
run 0 scr_index -p "$SCR_PREFIX" --verify-all --json
json 'len(data) == 3 and all(one["problems"] == [] for one in data)'
# A file that was put together from parts by hand: what scr_copy is told by scr_scavenge.
mkdir report
run 1 scr_copy --cntldir "$cntl" --prefix "$SCR_PREFIX" --id 1 --dir no.such.directory --buf 1KB --umask 077 --down gone \
  --partner 0-1 --only "0=$(hostname)" --report "$work/report" --json
json '"error" in data or data["problems"]'
[[ -n $(ls report) ]] && ok || not_ok "scr_copy --report wrote nothing"
rm "$SCR_PREFIX/.scr/index.scr"
run 0 scr_index -p "$SCR_PREFIX" --build
has '3 dataset\(s\) added'
run 0 scr_index -p "$SCR_PREFIX" --check --patience 5 --no-cache
run 2 scr_index -p "$SCR_PREFIX" --check --patience 0
run 0 scr_index -p "$SCR_PREFIX" --current 2
run 0 scr_index -p "$SCR_PREFIX" --current
has 'step 2'
run 0 scr_index -p "$SCR_PREFIX" --delete 1
run 0 scr_index -p "$SCR_PREFIX" --no-cache --json
json '"step 1" not in str(data) and "step 3" in str(data)'
finish
