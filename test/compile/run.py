#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""run.py INCLUDE_DIR: what must compile compiles without a warning, and what must not does not, with
a message that says why. By every compiler there is, as C and as C++. What is linked has the events
that it uses. TAP on stdout."""

import os
import re
import subprocess
import sys
import tempfile
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


# Two units of a library: four events that are used, varve_printf among them, and two that are not.
UNITS = ["""
#include <varve/varve.h>
VARVE_EVENT(a, one, VARVE_INFO, (u32, x));
VARVE_EVENT(a, unused, VARVE_INFO, (u32, x));
int first(void);
int first(void) { varve_a_one(5); return 0; }
""", """
#include <varve/varve.h>
VARVE_EVENT(a, two, VARVE_INFO, (str, x));
VARVE_EVENT(a, three, VARVE_INFO, (str, x));
VARVE_EVENT(a, unused, VARVE_INFO, (u32, x));
int second(void);
int second(void) { varve_a_two("x"); varve_printf(VARVE_INFO, "x"); return varve_enabled(a, three); }
"""]
LINKS = [["-O0"], ["-O2"], ["-O2", "-flto"],
         ["-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"],
         ["-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-fuse-ld=lld"]]


def linked(compiler, options):
    """Neither compiler nor linker loses an event, and what is not used is not there."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "units.so"
        for number, unit in enumerate(UNITS):
            (Path(folder) / f"{number}.c").write_text(unit)
        run = subprocess.run([compiler, "-shared", "-fPIC", "-I", INCLUDE, *options, "-o", out,
                              *Path(folder).glob("*.c")], text=True, stderr=subprocess.PIPE,
                             check=False)
        sections = subprocess.run(["readelf", "-SW", out], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=False).stdout
    found = re.search(r" varve_events +PROGBITS +\S+ +\S+ +(\S+)", sections)
    slots = int(found[1], 16) // 8 if found else 0
    good = run.returncode == 0 and (slots == 4 or (slots > 4 and "-O0" in options))
    return f"linked: {compiler} {' '.join(options)}", good, f"{slots} events\n{run.stderr}"


def jobs(pool):
    for compiler in "gcc", "clang":
        for options in LINKS if which(compiler) else []:
            if "lld" in options[-1] and not which("ld.lld"):
                continue
            if "-flto" in options and compiler == "clang":
                if not which("ld.lld"):
                    continue
                options = [*options, "-fuse-ld=lld"]
            yield pool.submit(linked, compiler, options)
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
