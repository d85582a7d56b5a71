# SPDX-License-Identifier: MIT
"""table.py SNAPSHOT: report.json as a table. Short processes of one name share a line."""

import collections
import json
import sys
from pathlib import Path


def count(n):
    """A number in five columns."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if n >= size:
            return f"{n / size:.{1 if n < 100 * size else 0}f}{unit}"
    return str(n)


def main():
    report = json.loads((Path(sys.argv[1]) / "report.json").read_text())
    taken = report["taken_at"]
    groups = collections.defaultdict(list)
    for p in report["processes"]:
        short = not p["alive"] and p["events"] + p["overwritten"] < 100000 and \
            (p["ended_at"] or taken) - p["started_at"] < 2 * 10**9
        groups[(p["name"], p["uid"], None if short else p["pid"])].append(p)

    print(f"{'pid':>8} {'uid':>5} {'name':<16} {'events':>7} {'rate/s':>7} {'covers':>8} "
          f"{'overwr.':>8} {'lost':>5}  state")
    rows = []
    for (name, uid, pid), ps in groups.items():
        events = sum(p["events"] for p in ps)
        overwritten = sum(p["overwritten"] for p in ps)
        lost = sum(sum(p["lost"].values()) + sum(p["left_out"].values()) for p in ps)
        # The rate of all that it said in its life; the time covered is that before the cut.
        life = sum((p["ended_at"] or taken) - p["started_at"] for p in ps) / 1e9
        total = events + overwritten + sum(p["aged"] for p in ps)
        # Of many together: only whether all is there.
        covers = f"{(taken - ps[0]['complete_since']) / 1e9:.2f} s" if len(ps) == 1 else ""
        whole = overwritten == 0 and lost == 0
        state = "alive" if any(p["alive"] for p in ps) else "dead"
        who = str(ps[0]["pid"]) if len(ps) == 1 else f"{len(ps)} x"
        rows.append((total, f"{who:>8} {uid:>5} {name:<16} {count(events):>7} "
                     f"{count(int(total / max(life, 0.001))):>7} {covers:>8} "
                     f"{count(overwritten) if overwritten else '-':>8} {count(lost) if lost else '-':>5}  "
                     f"{state}{', all of it' if whole and total else ''}"))
    for _, row in sorted(rows, key=lambda r: -r[0]):
        print(row)
    print(f"\nasked for {report['window_ns'] / 1e9:.0f} s; "
          f"{len(report['processes'])} processes in one trace")


main()
