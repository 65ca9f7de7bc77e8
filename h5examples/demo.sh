#!/usr/bin/env bash
# What `make demo` shows.
#   h5examples/demo.sh BUILD_DIR
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../tests/cluster/cluster
. "$build/env.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

step "1. Every file of ours carries its checksum: a damaged one is refused, not misread"
scr_print_config --prefix "$work" SCR_COPY_TYPE SCR_SET_SIZE SCR_FLUSH 2>/dev/null || true
