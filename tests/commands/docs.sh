#!/usr/bin/env bash
# docs/commands.md names every command, and no option that a command does not have.
#
#   docs.sh BUILD SOURCE
bin=$1/bin page=$2/docs/commands.md failed=0
for command in "$bin"/scr_*; do
  grep -q "\`${command##*/}\`" "$page" || { echo "docs/commands.md does not name ${command##*/}"; failed=1; }
done
while IFS='|' read -r _ names _ options _; do
  read -r command <<<"$(tr -d '`,' <<<"$names" | awk '{print $1}')"
  help=$("$bin/$command" --help) || { echo "$command --help fails"; failed=1; }
  for option in $(grep -oE -- '--[a-z-]+' <<<"$options"); do
    grep -qE -- "$option([^a-z-]|$)" <<<"$help" || { echo "$command has no option $option"; failed=1; }
  done
done < <(grep -E '^\| `scr_[a-z_]+`' "$page" | grep -v 'scr_halt --\|^| `scr_halt` | after')
exit $failed
