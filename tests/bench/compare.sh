# Compares programs that print lines "NAME SECONDS", run in turns, by the medians of each name, and by the shortest
# times (best/best), which other work on the machine disturbs least.
# Runs each command once a round: rounds ROUNDS FOLDER NAME=FUNCTION...; the lines of each go to FOLDER/NAME. Each
# round begins with another one, so that none always comes first.
rounds() {
  local rounds=$1 folder=$2 i j pair
  shift 2
  mkdir -p "$folder"
  for ((i = 0; i < rounds; i++)); do
    for ((j = 0; j < $#; j++)); do
      pair=${*:(i + j) % $# + 1:1}
      "${pair#*=}" >> "$folder/${pair%%=*}"
    done
  done
}

# median FILE NAME
median() { awk -v name="$2" '$1 == name { print $2 }' "$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# least FILE NAME
least() { awk -v name="$2" '$1 == name { print $2 }' "$1" | sort -g | head -n 1; }

# A line for each name: ratio of the medians: ratios FOLDER BASELINE OTHER AIM NAME...
ratios() {
  local folder=$1 baseline=$2 other=$3 aim=$4 name
  shift 4
  for name in "$@"; do
    awk -v name="$name" -v other="$other" -v baseline="$baseline" -v aim="$aim" \
      -v a="$(median "$folder/$other" "$name")" -v b="$(median "$folder/$baseline" "$name")" \
      -v c="$(least "$folder/$other" "$name")" -v d="$(least "$folder/$baseline" "$name")" \
      'BEGIN { printf "%-18s %-10s / %-8s = %.3f  (aim <= %s; %.3g s / %.3g s; best/best %.3f)\n",
               name, other, baseline, a / b, aim, a, b, c / d }'
  done
}
