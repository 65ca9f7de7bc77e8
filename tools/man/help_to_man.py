"""The man page of a command, made from what it prints with --help, so that the two cannot differ.

  help_to_man.py COMMAND VERSION [OTHER COMMAND...] > NAME.1

Reads the form that CLI11 prints: a description, "Usage:", groups of options, a footer. In the footer blank lines
separate paragraphs, and what begins with "Exit codes:" becomes a section.
"""
import os
import re
import subprocess
import sys

OPTION = re.compile(r"^ {2,}(?P<names>\S(?:.*?\S)?)(?: {2,}(?P<text>\S.*))?$")


def roff(text):
    """Text that groff does not take for commands; hyphens stay hyphens that can be searched for."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return re.sub(r"^\.", r"\\&.", text, flags=re.M)


def option_names(names):
    """-p,--prefix DIR:TYPE=3 as "-p, --prefix DIR", the words of types and defaults of CLI11 left out."""
    names = re.sub(r"(?<=\w):\S.*$", "", names)
    names = re.sub(r" (?:REQUIRED|Needs:.*|Excludes:.*)", "", names)
    flags, _, rest = names.partition(" ")
    for word, plain in (("TEXT", "VALUE"), ("ENUM", "VALUE"), ("UINT", "NUMBER"), ("INT", "NUMBER"), ("FLOAT", "NUMBER")):
        rest = re.sub(rf"\b{word}\b", plain, rest)
    if not flags.startswith("-"):
        rest = rest.replace("VALUE", "").strip()  # the name of a positional says it
    flags = ", ".join("\\fB" + roff(flag) + "\\fR" for flag in flags.split(","))
    return flags + (" \\fI" + roff(rest) + "\\fR" if rest else "")


def parse(text):
    """(description, usage, [(title, [(names, text)])], footer) of a help text."""
    lines = text.split("\n")
    usage = next(i for i, line in enumerate(lines) if line.startswith("Usage:"))
    description = " ".join(line.strip() for line in lines[:usage]).strip()
    groups, footer, current = [], [], None
    for line in lines[usage + 1:]:
        group = re.match(r"^\[Option Group: (.*)\]$", line)
        title = group or (re.match(r"^\w[\w ]*:$", line) and line != "Exit codes:")
        if footer or (line and not line.startswith(" ") and not title):
            footer.append(line)  # nothing but the footer comes after it
        elif group:
            current = (group[1], [])
            groups.append(current)
        elif line and not line.startswith(" "):
            current = (line.rstrip(":"), [])
            groups.append(current)
        elif current and line.strip():
            add_line(line, current)
    return description, lines[usage][len("Usage:"):].strip(), groups, "\n".join(footer).strip()


def add_line(line, group):
    entries = group[1]
    stripped = line.strip()
    if stripped == "Options:" or (stripped.startswith("[") and stripped.endswith("]")):
        return
    if len(line) - len(line.lstrip()) >= 20 and entries:  # the text of a long name
        names, text = entries[-1]
        entries[-1] = (names, (text + " " + stripped).strip())
        return
    found = OPTION.match(line)
    entries.append((found["names"], found["text"] or "") if found else ("", stripped))


def page(name, version, help_text, others):
    description, usage, groups, footer = parse(help_text)
    usage = re.sub(r"^\S*/", "", usage)
    out = [f'.TH {name.upper()} 1 "" "h5scr {version}" "h5scr"', ".SH NAME",
           f"{name} \\- {roff(description[:1].lower() + description[1:].split('. ')[0].rstrip('.'))}", ".SH SYNOPSIS",
           ".B " + roff(usage), ".SH DESCRIPTION", roff(description)]
    exit_codes = []
    for paragraph in re.split(r"\n\s*\n", footer) if footer else []:
        body, mark, codes = paragraph.partition("Exit codes:")
        if body.strip():
            out += [".PP", ".nf" if looks_like_a_table(body) else ".\\\"", roff(body.strip("\n"))]
            out += [".fi"] if looks_like_a_table(body) else []
        if mark:
            exit_codes.append(codes.strip())
    out.append(".SH OPTIONS")
    for title, entries in groups:
        if title not in ("Options", "Positionals"):
            out += [f".SS {roff(title[:1].upper() + title[1:])}"]
        for names, text in entries:
            if names.startswith("-") or title == "Positionals" or title == "Subcommands":
                out += [".TP", option_names(names), roff(text)]
            else:
                out += [".PP", roff((names + " " + text).strip())]
    if exit_codes:
        out += [".SH EXIT STATUS", ".nf", roff("\n".join(line.strip() for line in "\n".join(exit_codes).split("\n"))),
                ".fi"]
    if others:
        out += [".SH SEE ALSO", ", ".join(f"\\fB{roff(other)}\\fR(1)" for other in others)]
    return "\n".join(out) + "\n"


def looks_like_a_table(text):
    return any(line.startswith("  ") for line in text.split("\n"))


def main():
    command, version, others = sys.argv[1], sys.argv[2], sys.argv[3:]
    name = os.path.basename(command)
    text = subprocess.run([command, "--help"], check=True, capture_output=True, text=True).stdout
    sys.stdout.write(page(name, version, text, [other for other in sorted(others) if other != name]))


main()
