#!/usr/bin/env bash
# Every command has a man page that groff takes without a warning, with every option that --help knows.
#   man.sh BUILD_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/local_lib.sh"
pages=$build/share/man/man1
export MANWIDTH=300 LC_ALL=C.UTF-8
for command in "$build"/bin/scr_*; do
  name=${command##*/}
  if [[ ! -s $pages/$name.1 ]]; then
    not_ok "$name has no man page"
    continue
  fi
  [[ ! $command -nt $pages/$name.1 ]] && ok || not_ok "the man page of $name is older than the command"
  run 0 man --warnings -E UTF-8 -l "$pages/$name.1"
  [[ ! -s $work/stderr ]] && ok || not_ok "man page of $name: $(head -n 3 "$work/stderr")"
  page=$(sed 's/\x1b\[[0-9;]*m//g; s/.\x08//g' "$work/stdout")
  for section in NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" "SEE ALSO"; do
    grep -qx "$section" <<<"$page" && ok || not_ok "the man page of $name has no $section"
  done
  # Options begin their line in --help: "  -p,--prefix DIR".
  options=$("$command" --help | grep -oE '^ +-[-A-Za-z0-9_,]+' | tr -d ' ' | tr ',' '\n')
  [[ -n $options ]] || not_ok "$name --help has no options"
  for option in $options; do
    grep -qE -- "^ +(.*, )?$option(,| |\$)" <<<"$page" && ok || not_ok "$option is missing in the man page of $name"
  done
  # The page is in words of the help, not of CLI11.
  out=$page
  has_not 'REQUIRED|Option Group|UINT|FLOAT'
done
finish
