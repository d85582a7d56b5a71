# SPDX-License-Identifier: MIT
"""compiled-files.py COMPILE_COMMANDS.json: the C files of the products that a build compiles, once
each. Tests are left out: they would take most of the time of a check."""

import json
import os
import sys


def main():
    with open(sys.argv[1]) as f:
        commands = json.load(f)
    files = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in commands}
    src = os.path.realpath("src")
    for path in sorted(files):
        name = os.path.relpath(path, src)
        parts = name.split(os.sep)
        if name.startswith("..") or not name.endswith(".c") or len(parts) != 2:
            continue
        if not parts[1].startswith("test-"):
            print(os.path.join("src", name))


main()
