#!/usr/bin/env bash
# The samples for prolog and epilog in docs/administrators.md, run as they stand there but for the folder of scr_clean.
#
#   epilog.sh BUILD
page=$(cd "$(dirname "$0")/../.." && pwd)/docs/administrators.md
source "$(dirname "$0")/local_lib.sh"
export SCR_CNTL_BASE=$work/node SCR_CACHE_BASE=$work/node
mkdir -m 755 "$SCR_CNTL_BASE" fake
printf '#!/bin/sh\necho "$*" >> %q; cat <&0 >> %q\n' "$work/log" "$work/log" > fake/logger
chmod +x fake/logger

# sample NAME FILE: the script of the page whose second line names that file.
sample() {
  awk -v line="# $2" '/^```sh$/ {text = ""; inside = 1; next} /^```$/ {if (inside && index(text, "\n" line "\n")) printf "%s", text; inside = 0}
    inside {text = text $0 "\n"}' "$page" | sed "s|/opt/h5scr/bin|$work/fake:$build/bin|" > "$1"
  chmod +x "$1"
  if [ -s "$1" ]; then ok; else not_ok "docs/administrators.md has no sample $2"; fi
}
sample epilog /etc/slurm/epilog.d/50-scr
sample prolog /etc/slurm/prolog.d/50-scr
sample shared_prolog '/etc/slurm/prolog.d/50-scr, on shared nodes'

# job ID: a program of that job leaves checkpoints in the cache, which nobody has flushed.
job() {
  mkdir -p "$work/prefix.$1"
  (cd "$work/prefix.$1" && SCR_JOB_ID=$1 SCR_PREFIX=$PWD SCR_FLUSH=0 HDF5_DRIVER=scr HDF5_PLUGIN_PATH=$build/plugin \
    "$build/examples/orbit_serial" 400 200 > run.log 2>&1) || not_ok "job $1: $(cat "$work/prefix.$1/run.log")"
  is_there "$1"
}
left() { find "$SCR_CNTL_BASE" -path "*/scr.$1*" -type f | wc -l; }
is_there() { if [ "$(left "$1")" -gt 0 ]; then ok; else not_ok "nothing of job $1 is on the node"; fi; }
is_gone() { if [ "$(left "$1")" -eq 0 ]; then ok; else not_ok "files of job $1 are still on the node"; fi; }

job 41
job 42
run 0 env SLURM_JOB_ID=41 ./epilog
is_gone 41
is_there 42
if [ -e log ]; then not_ok "the epilog complains: $(cat log)"; else ok; fi

# What nobody knows stays, the system's log tells, and the node is not drained.
stranger=$(dirname "$(find "$SCR_CNTL_BASE" -path '*/scr.42*' -type f | head -n 1)")/stranger
echo 'precious' > "$stranger"
run 0 env SLURM_JOB_ID=42 ./epilog
if [ "$(cat "$stranger")" = precious ]; then ok; else not_ok "a file that is not h5scr's is gone"; fi
out=$(cat log)
has 'job 42: exit code 3'
has 'left: .*stranger'
rm "$stranger"

# Without a job's number nothing is done.
job 43
run 0 env -u SLURM_JOB_ID ./epilog
is_there 43

# On shared nodes what may still be wanted stays; a node for one job is empty when the next one comes.
run 0 ./shared_prolog
is_there 43
run 0 ./prolog
is_gone 43
finish
