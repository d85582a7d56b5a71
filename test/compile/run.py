#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""run.py INCLUDE_DIR: what must compile compiles without a warning, and what must not does not, with
a message that says why. By every compiler there is, as C and as C++. TAP on stdout."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which

HERE = Path(__file__).parent
INCLUDE = sys.argv[1]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
RIGHT = {"gcc": ["c11", "gnu17"], "clang": ["c11", "gnu17"],
         "g++": ["c++11", "c++17", "gnu++20"], "clang++": ["c++11", "c++17", "gnu++20"]}
HEADERS = ["varve.h", "abi.h", "field.h"]


def compile_text(compiler, options, text):
    """Exit status and messages. The header is included as a user's own, so that nothing in it is
    excused as a system header's."""
    language = "c++" if compiler.endswith("++") else "c"
    run = subprocess.run([compiler, "-x", language, "-I", INCLUDE, "-fno-diagnostics-color",
                          *options, "-c", "-o", os.devnull, "-"], input=text, text=True,
                         stderr=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}, check=False)
    return run.returncode, run.stderr.replace("\\'", "'")  # as gcc prints a quote


def right(compiler, std, level):
    extra = ["-Wshadow", "-Wconversion"]
    status, messages = compile_text(compiler, [f"-std={std}", level, *STRICT, *extra],
                                    (HERE / "right-use.h").read_text())
    return f"right use: {compiler} {std} {level}", status == 0, messages


def header(compiler, std, name):
    status, messages = compile_text(compiler, [f"-std={std}", *STRICT], f"#include <varve/{name}>\n")
    return f"{name} alone: {compiler} {std}", status == 0, messages


def wrong(compiler, name, expected, code):
    # What C merely warns of, as a pointer for a number, is an error with -Werror alone.
    std = "c++17" if compiler.endswith("++") else "c11"
    status, messages = compile_text(compiler, [f"-std={std}", "-Wall", "-Werror"],
                                    "#include <varve/varve.h>\n" + code)
    errors = [line for line in messages.splitlines() if "error:" in line]
    # Some name the function in a note only.
    said = bool(errors) and (expected in errors[0] or
                             (" " not in expected and expected in messages))
    return f"{name}: {compiler}", status != 0 and said, f"expected: {expected}\n{messages}"


def jobs(pool):
    for compiler, stds in RIGHT.items():
        if not which(compiler):
            yield pool.submit(lambda c=compiler: (f"{c} # SKIP not installed", True, ""))
            continue
        for std in stds:
            for level in "-O0", "-O2":
                yield pool.submit(right, compiler, std, level)
            for name in HEADERS:
                yield pool.submit(header, compiler, std, name)
        for case in (HERE / "wrong-use.txt").read_text().split("\n== ")[1:]:
            title, code = case.split("\n", 1)
            name, expected = title.split(" | ")
            yield pool.submit(wrong, compiler, name, expected, code)


def main():
    bad = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [job.result() for job in list(jobs(pool))]
    print(f"1..{len(results)}")
    for number, (name, good, messages) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            bad += 1
            print("\n".join("# " + line for line in messages.splitlines()[:12]))
    sys.exit(1 if bad else 0)


main()
