#!/usr/bin/env bash
# What .ci/bootstrap says when something is missing: without root, without network, without HDF5. The commands
# that would look at or change the system are replaced, so that nothing is installed here.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*" >&2; sed 's/^/  /' "$work/out" >&2 || true; exit 1; }
mkdir "$work/fake"

# A system that has every package but those in $work/missing, and an apt-get that has no network.
fake() { printf '#!/bin/sh\n%s\n' "$2" > "$work/fake/$1"; chmod +x "$work/fake/$1"; }
fake dpkg-query "for name; do :; done; grep -qx \"\$name\" '$work/missing' || printf installed"
fake apt-get "echo \"apt-get \$*\" >> '$work/apt.calls'; echo 'E: Failed to fetch the index' >&2; exit 100"
fake cmake 'exit 1'                # finds no HDF5 on the system
fake update-alternatives 'exit 1'
user() { fake id "echo $1"; }

bootstrap() { # build folder; keeps what it says and its exit code
  code=0
  env -u HDF5_ROOT PATH="$work/fake:$PATH" "${@:2}" bash "$root/.ci/bootstrap" "$1" > "$work/out" 2>&1 || code=$?
}
says() { grep -qF -- "$1" "$work/out" || fail "it does not say '$1'"; }
calls_of_apt() { [ -f "$work/apt.calls" ] && wc -l < "$work/apt.calls" || echo 0; }

# Two packages are missing, and we are not root: both named, no other, and the command that helps.
printf 'libisal-dev\nlibfmt-dev\n' > "$work/missing"
user 1000
bootstrap "$work/b1"
[ "$code" = 1 ] || fail "exit code $code without root"
says "these packages are missing: "
says "install them as root with: apt-get install "
named=$(sed -n 's/.*packages are missing: //p' "$work/out" | tr ' ' '\n' | sort | tr '\n' ' ')
[ "$named" = "libfmt-dev libisal-dev " ] || fail "it names '$named'"
[ "$(calls_of_apt)" = 0 ] || fail "it called apt-get without root"

# As root without network: it tries, and says which packages and where the log is.
user 0
bootstrap "$work/b2"
[ "$code" = 1 ] || fail "exit code $code without network"
says "E: Failed to fetch the index"
says "could not install these packages: "
says "no network?"
says "$work/b2/apt.log"
[ "$(calls_of_apt)" = 1 ] || fail "apt-get was called $(calls_of_apt) times"
[ ! -e "$work/b2/deps/hdf5.root" ] || fail "it went on without its packages"

# All packages are there, HDF5 is not and cannot be fetched: what failed, and the way around.
: > "$work/missing"
bootstrap "$work/b3"
[ "$code" = 1 ] || fail "exit code $code without HDF5"
says "could not build HDF5"
says "set HDF5_ROOT to a parallel HDF5 1.14 of yours"
says "$work/b3/deps/hdf5-build.log"
[ ! -e "$work/b3/deps/hdf5.root" ] || fail "it recorded an HDF5 that is not there"

# The same where no source of packages is set up at all.
fake awk 'exit 0'
bootstrap "$work/b3"
[ "$code" = 1 ] || fail "exit code $code without a source of packages"
says "no source of Debian packages is set up"
says "set HDF5_ROOT to a parallel HDF5 1.14 of yours"
rm "$work/fake/awk"

# With an HDF5 of the user's own nothing is fetched and nothing is said.
: > "$work/apt.calls"
user 1000
mkdir "$work/mine"
bootstrap "$work/b4" HDF5_ROOT="$work/mine"
[ "$code" = 0 ] || fail "exit code $code with HDF5_ROOT"
[ ! -s "$work/out" ] || fail "it says something though nothing is missing"
[ "$(cat "$work/b4/deps/hdf5.root")" = "$work/mine" ] || fail "HDF5_ROOT was not taken"
[ "$(calls_of_apt)" = 0 ] || fail "it called apt-get with everything there"
# and the next call remembers it.
bootstrap "$work/b4"
[ "$code" = 0 ] && [ ! -s "$work/out" ] || fail "a second call had something to do"
echo "ok"
