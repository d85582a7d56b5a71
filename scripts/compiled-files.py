# SPDX-License-Identifier: MIT
"""compiled-files.py COMPILE_COMMANDS.json: the C files of the products that a build compiles, once
each. Tests are left out: they would take most of the time of a check."""

import json
import os
import sys

TESTS = {"..", "test", "race", "model"}


def main():
    with open(sys.argv[1]) as f:
        commands = json.load(f)
    files = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in commands}
    src = os.path.realpath("src")
    for path in sorted(files):
        name = os.path.relpath(path, src)
        *folders, file = name.split(os.sep)
        if file.endswith(".c") and not file.startswith("test-") and not TESTS & set(folders):
            print(os.path.join("src", name))


main()
