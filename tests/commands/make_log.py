"""Writes an event log of a job: three runs on nodes node0 to node<n>, two of which die with a node.
  make_log.py [NODES [CHECKPOINTS]] > log.jsonl"""
import json
import random
import sys
from datetime import datetime, timedelta, timezone

nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 6
checkpoints = int(sys.argv[2]) if len(sys.argv) > 2 else 8
random.seed(1)
begin = datetime(2026, 3, 1, 8, 0, 0, tzinfo=timezone.utc)
now = 0.0
number = 0


def line(event, phase, time, run, **more):
    global number
    if phase != "end":
        number += 1
    stamp = (begin + timedelta(seconds=time)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"time": stamp, "event": event, "phase": phase, "number": more.pop("number", number), "user": "u",
              "job_id": "4711", "job_name": "flow", "run_id": run, "host": "node0", "ranks": nodes * 4}
    record.update(more)
    print(json.dumps(record))
    return number


def during(event, seconds, run, **more):
    """An event of so many seconds; the clock is behind it then."""
    global now
    begun = line(event, "start", now, run, **{k: more[k] for k in ("dataset", "name") if k in more})
    now += seconds
    line(event, "end", now, run, number=begun, ok=True, seconds=seconds, **more)


dataset = 0
hosts = [f"node{i}" for i in range(nodes)]
for index in range(3):
    run = f"{index}.1"
    whole = line("run", "start", now, run, nodes=hosts)
    if index > 0:
        during("rebuild", 9 + index, run, note="1 dataset(s) in cache, 4 rank(s) rebuilt")
    for step in range(checkpoints):
        during("compute", random.uniform(280, 330), run)
        dataset += 1
        name = {"dataset": dataset, "name": f"ckpt.{dataset}"}
        begun = line("checkpoint", "start", now, run, **name)
        start = now
        now += random.uniform(11, 15)
        during("encode", random.uniform(6, 8), run, bytes=64 * 10**9, files=nodes * 4, **name)
        line("checkpoint", "end", now, run, number=begun, ok=True, bytes=64 * 10**9, files=nodes * 4,
             seconds=now - start, **name)
        if dataset % 3 == 0:
            took = random.uniform(80, 130)
            line("flush", "once", now + took, run, ok=True, bytes=64 * 10**9, files=nodes * 4, seconds=took, **name)
    if index < 2:
        line("compute", "start", now, run)
        now += 140 + 50 * index
        lost = hosts[1 + index * 2]
        line("node failure", "once", now, run, ok=False, down_nodes=[lost], note="no answer to ping")
        hosts = [h for h in hosts if h != lost] + [f"spare{index}"]
        now += 70 if index == 0 else 4 * 3600
    else:
        line("halt", "once", now, run, ok=True, note="the time limit is near")
        line("run", "end", now, run, number=whole, ok=True, seconds=1.0)
