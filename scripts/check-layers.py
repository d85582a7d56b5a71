# SPDX-License-Identifier: MIT
"""check-layers.py: a file includes headers of its own layer and of lower ones only.

The order is that of doc/architecture.md. A line that breaks it is printed."""

import re
import subprocess
import sys

RANK = {"base": 0, "ring": 1, "wire": 2, "ctf": 3, "lib": 4, "preload": 5, "daemon": 5, "cli": 6}
# Beyond the order: what lives inside programs knows nothing of the daemon's side, and vice versa.
NEVER = {("preload", "ctf"), ("lib", "ctf"), ("daemon", "lib"), ("daemon", "preload")}


def main():
    bad = 0
    listing = subprocess.run(["git", "ls-files", "src/*.c", "src/*.h"], text=True, check=True,
                             stdout=subprocess.PIPE).stdout
    for path in listing.splitlines():
        layer = path.split("/")[1]
        # A unit test may stand on anything: it is in no product.
        if layer not in RANK or path.split("/")[-1].startswith("test-"):
            continue
        with open(path) as f:
            for n, line in enumerate(f, 1):
                m = re.match(r'\s*#\s*include\s+"(\w+)/', line)
                if m is None or m.group(1) not in RANK:
                    continue
                other = m.group(1)
                if RANK[other] > RANK[layer] or (layer, other) in NEVER:
                    print(f"{path}:{n}: {layer} must not include {other}")
                    bad = 1
    return bad


sys.exit(main())
