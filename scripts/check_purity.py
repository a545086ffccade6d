#!/usr/bin/env python3
"""Checks that the pure rooms are pure: prints what else their libraries need, and exits with 1.

    check_purity.py NM libsumcast_core.a libsumcast_wire.a

A clock, socket, thread, log or allocation cannot be used without naming a symbol of another library,
so `nm -u` shows it. core/ may name memory functions, the assertion's panic, and helpers that the
compiler calls by itself. wire/ may also make texts (std::string), for error messages.
"""
import re
import subprocess
import sys

from verdict import verdict

# What the library itself defines counts as its own.
ALLOWED = [
    r"mem(cpy|move|set|cmp)",
    r"sumcast::panic\(.*\)",
    r"__popcount[ds]i2|__(u?div|u?mod)ti3",
    r"_GLOBAL_OFFSET_TABLE_|__stack_chk_fail",
]
ALLOWED_FOR_TEXTS = [
    r"std::__cxx11::basic_string<char.*",
    r"std::allocator<char>.*|std::__throw_\w+\(.*\)",
    r"operator (new|delete)\(.*\)|strlen",
    r"__gxx_personality_v0|_Unwind_Resume|__cxa_\w+|__clang_call_terminate|std::terminate\(\)",
    r"sumcast::name_of\(.*\)",
]


def symbols(nm, library, *flags):
    text = subprocess.run([nm, "-C", *flags, library], check=True, capture_output=True,
                          text=True).stdout
    return {m.group(1) for m in re.finditer(r"^[0-9a-f ]*\s[A-Za-z] (.+)$", text, re.M)}


def main():
    nm, *libraries = sys.argv[1:]
    problems = []
    for library in libraries:
        allowed = ALLOWED + (ALLOWED_FOR_TEXTS if "wire" in library else [])
        foreign = symbols(nm, library, "-u") - symbols(nm, library, "--defined-only")
        # The rooms below: wire's readers and base's names of types are pure as well.
        for symbol in sorted(foreign):
            if symbol.startswith("sumcast::wire::") or re.fullmatch("|".join(allowed), symbol):
                continue
            problems.append(f"{library}: needs {symbol}")
    return verdict(problems, "the pure rooms are pure")


if __name__ == "__main__":
    sys.exit(main())
