#!/usr/bin/env python3
"""Checks that the tree keeps to its own plan; prints every violation and exits with 1 if any.

  - Includes never climb: a room of src/ includes only itself, rooms above its own row in
    src/README.md, and only those that src/CMakeLists.txt lists for it. Tests may also use what
    their TEST_USES lists.
  - include/sumcast/: element.hpp and result.hpp are part of base; what is above them is the API,
    which only api and the programs include.
  - Every rule of docs/protocol.md (P1, P2, ...) and docs/numerics.md (N1, N2, ...) that code cites
    exists, and every Pn is cited by code. N rules are kept by tests of numeric/, by name.
  - Only runtime/ reads the environment.
  - Files of src/ have at most 600 lines.

Knows no build directory: it reads sources only.
"""
import pathlib
import re
import sys

from verdict import verdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE_SUFFIXES = {".cc", ".h", ".hpp", ".inc"}
API_ROOMS = {"api", "daemon", "cli", "sparse", "embedding"}
BASE_HEADERS = {"sumcast/element.hpp", "sumcast/result.hpp"}
LINES_MAX = 600


def rooms_in_order():
    """Room names from the table of src/README.md, bottom up."""
    names = []
    for line in (ROOT / "src/README.md").read_text().splitlines():
        if line.startswith("| `"):
            names += re.findall(r"`(\w+)`", line.split("|")[1])
    return names


def listed_uses():
    """{room: (USES, TEST_USES)} from src/CMakeLists.txt."""
    text = (ROOT / "src/CMakeLists.txt").read_text()
    uses = {}
    for call in re.findall(r"sumcast_room\(([^)]*)\)", text):
        words = call.split()
        lists = {"USES": set(), "TEST_USES": set()}
        current = None
        for word in words[1:]:
            if word.isupper():
                current = lists.get(word)
            elif current is not None:
                current.add(word)
        uses[words[0]] = (lists["USES"], lists["TEST_USES"])
    return uses


def source_files(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                yield path


def check_includes(problems):
    order = rooms_in_order()
    uses = listed_uses()
    for path in source_files("src"):
        where = path.relative_to(ROOT)
        if len(where.parts) == 2:  # In no room: src/library.cc, which joins them.
            continue
        room = where.parts[1]
        if room not in order:
            problems.append(f"{where}: room {room} is not in src/README.md")
            continue
        own_uses, test_uses = uses.get(room, (set(), set()))
        allowed = own_uses | (test_uses if path.name.endswith("_test.cc") else set())
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not found:
                continue
            other = found.group(1).split("/")[0]
            if other == "sumcast":
                if found.group(1) not in BASE_HEADERS and room not in API_ROOMS:
                    problems.append(f"{where}:{number}: {room} includes the API")
            elif other in order and other != room:
                if order.index(other) > order.index(room) and other not in test_uses:
                    problems.append(f"{where}:{number}: {room} climbs to {other}")
                elif other not in allowed:
                    problems.append(f"{where}:{number}: {room} includes {other}, which"
                                    " src/CMakeLists.txt does not list for it")


def check_rules(problems, document, letter, must_be_cited):
    defined = set(re.findall(rf"^\*\*({letter}\d+)\b", (ROOT / document).read_text(), re.M))
    if not defined:
        problems.append(f"{document}: no rules found")
    cited = set()
    for path in source_files("src", "include", "sim", "fuzz"):
        is_test = path.name.endswith("_test.cc")
        for number, line in enumerate(path.read_text().splitlines(), 1):
            comment = line.partition("//")[2]
            for rule in re.findall(rf"\b{letter}\d+\b", comment):
                if rule not in defined:
                    problems.append(f"{path.relative_to(ROOT)}:{number}: {document} has no {rule}")
                if not is_test:
                    cited.add(rule)
    if must_be_cited:
        for rule in sorted(defined - cited, key=lambda r: int(r[1:])):
            problems.append(f"{document}: no code cites {rule}")


def check_environment_and_size(problems):
    for path in source_files("src"):
        where = path.relative_to(ROOT)
        text = path.read_text()
        if where.parts[1] != "runtime" and not path.name.endswith("_test.cc"):
            if re.search(r"\b(secure_)?getenv\s*\(", text):
                problems.append(f"{where}: only runtime/ reads the environment")
        lines = text.count("\n")
        if lines > LINES_MAX:
            problems.append(f"{where}: {lines} lines, more than {LINES_MAX}")


def main():
    problems = []
    check_includes(problems)
    check_rules(problems, "docs/protocol.md", "P", must_be_cited=True)
    check_rules(problems, "docs/numerics.md", "N", must_be_cited=False)
    check_environment_and_size(problems)
    return verdict(problems, "layers and rules are in order")


if __name__ == "__main__":
    sys.exit(main())
