#!/usr/bin/env python3
"""The documentation says nothing that is not there.

    check_docs.py SOURCE BUILD/bin

Looks at README.md, h5examples/README.md and docs/**/*.md, and fails with a line for each of these:

- a relative link that goes nowhere, or to a heading that is not there; a picture that is no well-formed XML
- a parameter SCR_... that is neither in docs/parameters.md nor known to the code (KNOWN below)
- a command scr_... that has no file in tools/, and is no other name of ours (OTHER_NAMES below)
- an option after a command, in code, that the command's --help does not have
- a test that is named and does not exist: tests/FILE, with its case (a function case_NAME, or a word) behind it
- a message in docs/troubleshooting.md that no source has
- a CMake option in docs/administrators.md or the Spack recipe that CMake does not have
- an option of a command, long and short, that no test gives the command in one call (WRAPPERS below)
"""
import html
import re
import subprocess
import sys
import xml.dom.minidom
from functools import lru_cache
from pathlib import Path

# Names with SCR_ that are no parameters: of scr.h, of commands, of the environment, in state files.
KNOWN = {
    "SCR_SUCCESS", "SCR_FAILURE", "SCR_MAX_FILENAME", "SCR_FLAG_NONE", "SCR_FLAG_CHECKPOINT", "SCR_FLAG_OUTPUT",
    "SCR_CKPT_NAME", "SCR_RUN_ID", "SCR_FAULT", "SCR_LIBRARY", "SCR_FINALIZE_CALLED",
}
# Names with scr_ that are no commands: hints of MPI-IO, libraries and targets.
OTHER_NAMES = {
    "scr_route", "scr_type", "scr_set_size", "scr_copy_type", "scr_flush", "scr_order",
    "scr_base", "scr_mpiio", "scr_hdf5_legacy",
}
# Functions and variables by which a test gives options to commands.
REBUILDS = ["scr_rebuild_xor", "scr_rebuild_partner", "scr_rebuild_rs"]
WRAPPERS = {
    "relaunch.sh": {"run_options": ["scr_run"]},
    "scavenge.sh": {"postrun": ["scr_postrun"]},
    "scavenge_shared.sh": {"postrun": ["scr_postrun"]},
    "scr_clean_test.cpp": {"run": ["scr_clean"], "bases_": ["scr_clean"]},
    "scr_print_config_test.cpp": {"run": ["scr_print_config"]},
    "scr_rebuild_test.cpp": {"run": REBUILDS, "run_program": REBUILDS, "line": REBUILDS},
    "scr_transfer_test.cpp": {"start": ["scr_transfer"]},
}
# What CMake has by itself, or through its find modules.
CMAKE_OWN = re.compile(r"^(CMAKE_|MPI_|HDF5_ROOT$)")

failures = []


def fail(page, line, text):
    failures.append(f"{page}:{line}: {text}")


def pages(source):
    found = [source / "README.md", source / "h5examples" / "README.md", *sorted((source / "docs").rglob("*.md"))]
    return [page for page in found if page.exists()]


def blocks_of_code(text):
    """(line, code) of indented and fenced lines, and of `spans`."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield number, re.sub(r"(^|\s)#\s.*", "", line)  # without comments
        else:
            for span in re.findall(r"`([^`]+)`", line):
                yield number, span


# --- links -----------------------------------------------------------------------------------------------------


def anchor(heading):
    """The anchor that Git hosts give a heading."""
    text = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", lambda match: match.group(1) or "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@lru_cache
def anchors_of(page):
    return {anchor(line.lstrip("#")) for line in page.read_text().split("\n") if line.startswith("#")}


def check_links(source, page, text):
    for number, line in enumerate(text.split("\n"), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, fragment = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if source.resolve() not in [file, *file.parents] or not file.exists():
                fail(page, number, f"the link '{target}' goes nowhere")
            elif fragment and file.suffix == ".md" and fragment not in anchors_of(file):
                fail(page, number, f"the link '{target}' names a heading that is not there")


def check_pictures(source):
    for picture in sorted((source / "docs").rglob("*.svg")):
        try:
            xml.dom.minidom.parse(str(picture))
        except Exception as error:  # the parser's own classes differ
            fail(picture, 1, f"it is not well-formed: {error}")


# --- names -----------------------------------------------------------------------------------------------------


def check_parameters(page, text, parameters):
    for number, line in enumerate(text.split("\n"), 1):
        for name in re.findall(r"\bSCR_[A-Z0-9_]*[A-Z0-9]\b", line):
            group = any(known.startswith(name + "_") for known in parameters)  # SCR_LOG_*
            if name not in parameters and name not in KNOWN and not (group and name + "_" in line):
                fail(page, number, f"{name} is no parameter")


def check_commands(page, text, commands):
    for number, line in enumerate(text.split("\n"), 1):
        for name in re.findall(r"(?<![\w./-])scr_[a-z0-9_]*[a-z0-9](?![\w*])", line):
            if name not in commands and name not in OTHER_NAMES and not re.search(name + r"(\.\w|[-_]\*)", line):
                fail(page, number, f"there is no command {name}")


@lru_cache
def help_of(command):
    result = subprocess.run([str(command), "--help"], capture_output=True, text=True, timeout=60, check=False)
    return result.stdout if result.returncode == 0 else ""


def has_option(binaries, command, option):
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_of(binaries / command)) is not None


def check_options(page, text, commands, binaries):
    for number, code in blocks_of_code(text):
        # A command's own words end at --, at what joins commands, and where the shell substitutes.
        for part in re.split(r"\s--(?=\s|$)|[|;&()]", code):
            words = part.split()
            at = next((i for i, word in enumerate(words) if word in commands), None)
            if at is None:
                continue
            for word in words[at + 1:]:
                option = re.match(r"--?[A-Za-z][\w-]*", word.strip("'\"[]"))
                if option and not has_option(binaries, words[at], option.group()):
                    fail(page, number, f"{words[at]} has no option {option.group()}")


# --- claims ----------------------------------------------------------------------------------------------------


def check_tests(source, page, text, strict):
    """`tests/clients/shared.sh node_lost`; elsewhere also tests/clients/shared.sh `node_lost`."""
    for number, line in enumerate(text.split("\n"), 1):
        for name in re.findall(r"(?<![\w/])tests/[\w./-]*\w", line):
            if not (source / name).exists() and not list(source.glob(name + "*")):
                fail(page, number, f"there is no {name}")
        claims = re.findall(r"`(tests/[\w./-]+\.(?:sh|c|cpp|py))((?: [\w.]+)*)`", line)
        if not strict:
            claims += [(name, " ".join(re.findall(r"`(\w+)`", rest)))
                       for name, rest in re.findall(r"(?<!`)(tests/[\w./-]+\.sh) \(?((?:`\w+`(?:, | and )?)+)", line)]
        for name, cases in claims:
            file = source / name
            for case in cases.split() if file.is_file() else []:
                if not re.search(rf"\b(case_)?{re.escape(case.replace('.', ', '))}\b", file.read_text()):
                    fail(page, number, f"{name} has no case {case}")


def source_text(source):
    """All sources, with adjacent string literals joined and C's escapes taken back."""
    text = ""
    for folder in ["core", "flush", "redundancy", "vfd", "tools"]:
        for file in sorted((source / folder).rglob("*")):
            if file.suffix in {".cpp", ".hpp", ".c", ".h"}:
                text += file.read_text() + "\n"
    return re.sub(r'"\s*\n\s*"', "", text).replace('\\"', '"').replace("\\\\", "\\")


def check_messages(source):
    page = source / "docs" / "troubleshooting.md"
    sources = source_text(source)
    for number, line in enumerate(page.read_text().split("\n"), 1):
        message = re.match(r"\| `([^`]+)` \|", line)
        for part in message.group(1).split("…") if message else []:
            part = html.unescape(part).strip().strip("'").strip()
            if len(part) > 3 and part not in sources:
                fail(page, number, f"no source says '{part}'")


def check_cmake_options(source):
    cmake = "".join(file.read_text() for file in [source / "CMakeLists.txt", source / "vfd" / "CMakeLists.txt"])
    for page, pattern in [("docs/administrators.md", r"^\| (`[A-Z].*?) \|"),
                          ("docs/packaging/spack/package.py", r'self\.define(?:_from_variant)?\("(\w+)"'),
                          ("README.md", r"-D([A-Z]\w+)=")]:
        text = (source / page).read_text()
        names = [name for found in re.findall(pattern, text, re.M) for name in re.findall(r"\w+", found)]
        for name in names:
            if not CMAKE_OWN.match(name) and not re.search(rf"(option|set|find_path)\({name}\b", cmake):
                fail(source / page, 1, f"CMake has no option {name}")


def options_of(text):
    """The options of a --help, each as all of its names."""
    for found in re.finditer(r"^\s+((?:-\w,)*)((?:--[a-z0-9-]+,?)+)", text, re.M):
        names = re.findall(r"-\w(?=,)", found[1]) + re.findall(r"--[a-z0-9-]+", found[2])
        if names[-1] not in ("--help", "--version"):
            yield names


def calls_of(file, text):
    """What may be a call, each as one line: of C++ and Python up to the end of a statement, of others a line with
    those that its last backslash joins to it. Comments are no calls."""
    if file.suffix == ".cpp":
        text = re.sub(r"^\s*//.*", "", text, flags=re.M)
        return [" ".join(part.split()) for part in re.split(r";\s*\n|\{\s*\n", text)]
    text = re.sub(r"^\s*#.*", "", text, flags=re.M)
    if file.suffix == ".py":
        return [" ".join(part.split()) for part in re.split(r"\n(?=\s{0,8}\w)", text)]
    return re.sub(r"\\\n\s*", " ", text).split("\n")


def words_for(command, file, text):
    """What the calls of a command in a test have behind it. What is behind the next command is not for this one."""
    names = [command] + [name for name, of in WRAPPERS.get(file.name, {}).items() if command in of]
    called = re.compile(rf"(?<![\w-])({'|'.join(names)})(?![\w-])")
    for call in calls_of(file, text):
        if found := called.search(call):
            yield re.split(r"[;|&]\s*scr_", call[found.end():])[0]


def check_use(source, commands, binaries):
    tests = {file: file.read_text(errors="replace") for file in (source / "tests").rglob("*")
             if file.suffix in (".sh", ".cpp", ".py", ".cmake", ".txt") and "bench" not in file.parts}
    for command in sorted(commands):
        used = "\n".join(words for file, text in tests.items() for words in words_for(command, file, text))
        for names in options_of(help_of(binaries / command)):
            if not re.search(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])", used):
                fail(source / "tests", 1, f"no test uses {names[-1]} of {command}")


def main():
    source, binaries = Path(sys.argv[1]), Path(sys.argv[2])
    table = (source / "docs" / "parameters.md").read_text()
    parameters = set(re.findall(r"^\| `(SCR_[A-Z0-9_]+)` \|", table, re.M))
    commands = {file.stem for file in (source / "tools").glob("scr_*.cpp")}
    if len(parameters) < 50 or len(commands) < 20:
        fail(source, 1, f"only {len(parameters)} parameters and {len(commands)} commands were found")
    for page in pages(source):
        text = page.read_text()
        check_links(source, page, text)
        check_parameters(page, text, parameters)
        check_commands(page, text, commands)
        check_options(page, text, commands, binaries)
        check_tests(source, page, text, strict=page.name == "comparison.md")
    check_pictures(source)
    check_messages(source)
    check_cmake_options(source)
    check_use(source, commands, binaries)
    for line in failures:
        print(line)
    print(f"{len(pages(source))} pages, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
