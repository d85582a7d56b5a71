# SPDX-License-Identifier: MIT
"""compiled-files.py COMPILE_COMMANDS.json: the C files of src/ that a build compiles, once each."""

import json
import os
import sys


def main():
    with open(sys.argv[1]) as f:
        commands = json.load(f)
    files = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in commands}
    src = os.path.realpath("src") + os.sep
    for path in sorted(files):
        if path.startswith(src) and path.endswith(".c"):
            print(os.path.relpath(path))


main()
