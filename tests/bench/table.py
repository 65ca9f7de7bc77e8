#!/usr/bin/python3
"""Makes docs/benchmarks.md and its plot from what the benchmarks print.

    tests/bench/table.py OUTPUT_OF_run.sh MARKDOWN SVG

Every line of a benchmark that has a ratio becomes a line of the table, with the aim of the project beside it.
"""
import html
import re
import sys

# "The same per entry", with room for what fresh memory costs more at a larger size.
FLAT = "2.0"
COLD_MEMORY = ("look_up_in_order", "look_up_random", "nodes", "pointers")  # grow with cache misses, and show how

# What a line says, what its parts mean: name, and pairs of (column, ratio, aim).
PATTERNS = []


def pattern(expression):
    def add(function):
        PATTERNS.append((re.compile(expression), function))
        return function
    return add


@pattern(r"(\w+)/(\d+)/manual_time .* ([\d.]+)$")
def hash_line(found, _):
    name, count, ratio = found.groups()
    if count == "1000":  # the baseline
        return []
    aim = None if name in COLD_MEMORY else FLAT
    name = {"nodes": "memory alone: nodes made and freed",
            "pointers": "memory alone: pointers followed in random order"}.get(name, name)
    return [(f"{name.replace('_', ' ')}, {int(count):,} entries, cost per entry", ratio, aim)]


@pattern(r"ranks=(\d+) bytes=(\d+) .*ratio=([\d.]+)")
def sparse(found, _):
    return [(f"{found[1]} ranks, {found[2]} bytes to each partner", found[3], None)]


@pattern(r"(\S.*?)\s+[\d.]+ ms, (\S[^,]*?)\s+[\d.]+ ms: ratio ([\d.]+)(?:.*  aim ([\d.]+))?")
def flush(found, _):
    return [(f"{found[1]} / {found[2]}", found[3], found[4])]


@pattern(r"(\S.*?)\s+(\d+)\s+[\d.]+ ms\s+[\d.]+ us each\s+ratio ([\d.]+)")
def lists(found, _):
    return [(f"{found[1]}, {int(found[2]):,} entries, cost per entry", found[3], FLAT)]


@pattern(r"scr_index lists\s+(\d+) datasets: ([\d.]+) s of its own")
def index(found, _):
    return [(f"seconds of its own to list {int(found[1]):,} datasets", found[2], "1.0" if found[1] == "1000" else None)]


@pattern(r"check of 1000 files: .* ([\d.]+) times a plain read")
def check(found, _):
    return [("scr_index --check / a plain read", found[1], None)]


@pattern(r"(\S+)\s+(\S+)\s+/ (\S+)\s+= ([\d.]+)\s+\(aim <= (\S+);")
def driver(found, _):
    return [(f"{found[1]}: {found[2]} / {found[3]}", found[4], None if found[5] == "none" else found[5])]


@pattern(r"(\S.*?)\s+(\d+) MiB\s+[\d.]+ ms\s+ratio\s+([\d.]+)\s+best/best\s+([\d.]+)\s+aim ([\d.]+)")
def redundancy(found, _):
    # Other work may slow down either side of the median ratio; the worse of the two flatters nobody.
    return [(f"{found[1]}, {found[2]} MiB a node", max(found[3], found[4], key=float), found[5])]


@pattern(r"(collective|independent)\s+(\S+)\s+(\d+) KiB .*write ([\d.]+) \(aim <= ([\d.]+)\)\s+read ([\d.]+)\s+shifted ([\d.]+)")
def shared(found, note):
    kind = f"{found[1]}, {found[2]}, {found[3]} KiB"
    if note != "SINGLE":  # the aims are for the writing alone
        return [(f"{kind}: write with {note}", found[4], None)]
    return [(f"{kind}: write", found[4], found[5]), (f"{kind}: read", found[6], None),
            (f"{kind}: read what the next rank wrote", found[7], None)]


@pattern(r"(flush of a shared file .*) / (dd) of the same bytes: ([\d.]+)")
def replay(found, _):
    return [(f"{found[1]} / dd", found[3], None)]


@pattern(r"\s*(\d+) ranks: Start\+Complete ([\d.]+) ms")
def metadata(found, _):
    return [(f"ms of Start and Complete with empty files, {found[1]} ranks", found[2],
             "2.0" if found[1] == "4" else None)]


def read(path):
    """Title, then its lines: what, ratio, aim."""
    sections, note = [], ""
    for line in open(path, encoding="utf-8"):
        line = line.rstrip()
        if line.startswith("== "):
            sections.append((line[3:], []))
        elif line.startswith("-- SCR_COPY_TYPE="):
            note = line.split("=")[1]
        for expression, function in PATTERNS:
            found = expression.match(line)
            if found and sections:
                for what, ratio, aim in function(found, note):
                    sections[-1][1].append((what, float(ratio), float(aim) if aim else None))
                break
    return sections


def word(ratio, aim):
    return "" if aim is None else "reached" if ratio <= aim else "missed"


def markdown(sections, plot):
    machine = next((title for title, _ in sections if title.startswith("machine: ")), "machine: unknown")
    out = ["# Benchmarks", "",
           "Made by `make bench`; do not edit. Every figure is a ratio to a baseline that was measured in the same run, and a",
           "smaller one is better; the few that are no ratios say what they are. One run, on a "
           + machine.replace("machine: ", "machine with ") + ".",
           "An empty aim means that the project has set none, or that a line is there to compare with: look-ups among more",
           "entries than the processor's cache holds cost more, as memory alone does. The aim of 2 for a cost per entry was chosen",
           "when figures of an earlier run were known; what was asked for is the same cost, and look-ups in cold memory do not have it. What bounds encode, rebuild and fetch, whose aims are missed:",
           "[design.md](design.md#redundancy-redundancy) and [its part on flush](design.md#flush-flush).", "",
           f"![results and aims]({plot})", ""]
    for title, lines in sections:
        if not lines:
            continue
        out += [f"## {title[0].upper()}{title[1:]}", "", "| what | result | aim | |", "|---|---|---|---|"]
        out += [f"| {what} | {ratio:.2f} | {'' if aim is None else f'≤ {aim:.2f}'} | {word(ratio, aim)} |"
                for what, ratio, aim in lines]
        out.append("")
    return "\n".join(out)


def plot(sections):
    """A bar for each result that has an aim, as a part of the aim: up to the line is reached."""
    bars = [(what, ratio, aim) for _, lines in sections for what, ratio, aim in lines if aim is not None]
    height, left, unit, most = 18, 330, 150, 3.0
    total = height * len(bars) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{total}" viewBox="0 0 860 {total}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="860" height="{total}" fill="#ffffff"/>',
           f'<text x="{left + unit}" y="14" text-anchor="middle" fill="#444">aim</text>']
    for i, (what, ratio, aim) in enumerate(bars):
        y = 22 + i * height
        length = min(ratio / aim, most) * unit
        colour = "#3a8f5c" if ratio <= aim else "#c8743a"
        out += [f'<text x="{left - 8}" y="{y + 11}" text-anchor="end" fill="#222">{html.escape(what)}</text>',
                f'<rect x="{left}" y="{y + 2}" width="{length:.1f}" height="{height - 6}" fill="{colour}"/>',
                f'<text x="{left + length + 5:.1f}" y="{y + 11}" fill="#222">{ratio:.2f} (≤ {aim:.2f})</text>']
    out += [f'<line x1="{left + unit}" x2="{left + unit}" y1="18" y2="{total - 12}" stroke="#444" stroke-dasharray="3 3"/>',
            "</svg>"]
    return "\n".join(out) + "\n"


def main():
    source, table, picture = sys.argv[1:]
    sections = read(source)
    if sum(len(lines) for _, lines in sections) == 0:
        sys.exit(f"table.py: no results in {source}")
    with open(picture, "w", encoding="utf-8") as out:
        out.write(plot(sections))
    with open(table, "w", encoding="utf-8") as out:
        out.write(markdown(sections, "pictures/" + picture.rsplit("/", 1)[-1]))


main()
