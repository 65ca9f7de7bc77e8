#!/usr/bin/env bash
# `make demo`, as root on virtual nodes and as anybody else on one node. It fails by itself if nothing was lost or
# nothing was restarted; here it must also say what it did, and leave its picture and report.
#   demo.sh BUILD_DIR root|without_root
set -euo pipefail
build=$(cd "$1" && pwd) case=$2
demo=$(cd "$(dirname "$0")/../../h5examples" && pwd)/demo.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $case in
  root) as=() ;;
  # Another user id without its rights, but with what this user may read: the build folder may be anywhere.
  without_root) as=(unshare --user --map-user=1000 --map-group=1000) ;;
  *) echo "demo.sh: what is '$case'?" >&2; exit 2 ;;
esac
"${as[@]}" bash "$demo" "$build" "$work/output" 2>&1 | tee "$work/log"

expect() { grep -q -e "$1" "$work/log" || { echo "FAILED: '$1' is not in the output" >&2; exit 1; }; }
[ "$case" = root ] || expect 'Not root, so there are no virtual nodes'
[ "$case" != root ] || expect '2 rank(s) rebuilt'
expect 'scr_run: run 1 ended with status'
expect 'The loss was survived: restarted from step'
expect 'yes, the picture is the same, byte for byte'
expect 'ckpt_0120: .* every byte is right'
expect 'The demo took [0-9]* s'
for file in heat.pgm report.html; do
  [ -s "$work/output/$file" ] || { echo "FAILED: there is no $file" >&2; exit 1; }
done
echo "demo.$case: ok"
