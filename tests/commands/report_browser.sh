#!/usr/bin/env bash
# The report in a browser without a screen, light and dark: it must show something, in the colours of its legend.
#   report_browser.sh BUILD_DIR [FOLDER FOR THE PICTURES]
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pictures=${2:-}
source "$here/local_lib.sh"
browser=$(command -v chromium) || { echo "chromium is missing (see .ci/packages)" >&2; exit 1; }
python3 "$here/make_log.py" > log.jsonl
run 0 scr_report --log log.jsonl -o report.html

# picture NAME SCHEME: 0 is dark, 1 is light
picture() {
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
    --user-data-dir="$work/profile" --blink-settings=preferredColorScheme="$2" --window-size=1280,1000 \
    --screenshot="$work/$1.png" "file://$work/report.html" > browser.log 2>&1
  [[ -s $1.png ]] && ok || not_ok "no picture: $(tail -n 3 browser.log)"
  [[ -z $pictures ]] || cp "$1.png" "$pictures"
  # Colours of the picture: enough of them, and the page's own.
  run 0 python3 "$here/picture_colours.py" "$1.png"
}
picture light 1
json 'data["size"] == [1280, 1000] and data["colours"] > 50'
json 'data["share"]["#f6f7f9"] > 0.1 and data["share"]["#ffffff"] > 0.3' # paper and cards
json 'all(data["share"].get(c, 0) > 0.0005 for c in ["#a7d8b8", "#2f6fed", "#ef9f27", "#b9c4d4"])' # bars
json 'data["share"].get("#d92d3a", 0) > 0' # failures
picture dark 0
json 'data["share"]["#12161d"] > 0.1 and data["share"]["#1a2029"] > 0.3'
json 'all(data["share"].get(c, 0) > 0.0005 for c in ["#3f7a57", "#5a92ff", "#f2b04c", "#4a586c"])'
finish
