#!/usr/bin/env bash
# scr_report and scr_ckpt_interval on logs of runs, sound, cut and garbled.
#   report.sh BUILD_DIR
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/local_lib.sh"
mkdir .scr
python3 "$here/make_log.py" > .scr/log.jsonl

echo "-- a report"
run 0 scr_report
has '^scr_report.html: 3 run\(s\), 2 failure\(s\)'
run 0 cat scr_report.html
has '<svg .*Time line'
has 'run 3'
has 'node1 was lost'
has 'best 6 min'
run 0 scr_report --json
json 'len(data["runs"]) == 3 and [r["how"] for r in data["runs"]] == ["died", "died", "finished"]'
json 'data["failures"] == 2 and data["bandwidth"]["flush"]["count"] == 8'
json '300 < data["interval"]["daly_seconds"] < 500 and "spare1" in data["nodes"]'
run 0 scr_report -o - --job 4711
has '</html>'
run 1 scr_report --job 1
has "no event of job '1'"

echo "-- the interval"
run 0 scr_ckpt_interval
has '^best interval \(Daly\): +6 min'
has '^SCR_CHECKPOINT_SECONDS=3[0-9][0-9]$'
run 0 scr_ckpt_interval --json --mtbf 86400
json 'data["mtbf"] == 86400 and data["checkpoint_seconds"]["count"] == 24'
run 0 scr_ckpt_interval --log none --cost 50 --mtbf 10000 --json
json 'abs(data["young_seconds"] - 1000) < 1e-6'
run 2 scr_ckpt_interval --cost -1
run 1 scr_ckpt_interval --log none

echo "-- logs that are cut, garbled, empty"
head -c 5000 .scr/log.jsonl > cut.jsonl
run 0 scr_report --log cut.jsonl --json
json 'data["unreadable_lines"] <= 1'
{ head -n 60 .scr/log.jsonl; head -c 20000 /dev/urandom; echo; echo '{"time":3}'; echo '[[[['; tail -n 40 .scr/log.jsonl; } > bad.jsonl
run 0 scr_report --log bad.jsonl --json
json 'data["unreadable_lines"] >= 3'
run 0 scr_report --log bad.jsonl -o bad.html
run 0 scr_ckpt_interval --log bad.jsonl
has 'line\(s\) of the log cannot be read'
: > empty.jsonl
run 1 scr_report --log empty.jsonl
has 'has no event'
head -c 3000 /dev/urandom > noise.jsonl
run 1 scr_report --log noise.jsonl
python3 -c 'print("[" * 500000); print("{\"a\":" * 100000)' > deep.jsonl
run 1 scr_report --log deep.jsonl

echo "-- many nodes and checkpoints stay one page of bounded size"
python3 "$here/make_log.py" 3000 400 > many.jsonl
run 0 scr_report --log many.jsonl -o many.html
size=$(stat -c %s many.html)
((size < 3000000)) && ok || not_ok "the page has $size bytes"
finish
