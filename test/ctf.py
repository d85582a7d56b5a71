# SPDX-License-Identifier: MIT
"""Reading snapshots: every one is judged by babeltrace2 first, then taken apart.

Trace(dir) runs babeltrace2 under the usual limit of open files; it must exit 0 and may say nothing
but what it says of discarded events, and then only as many as report.json accounts for. Also
checked: the layout of the folder, and that report.json and the events agree in number."""

import collections
import json
import re
import subprocess
from pathlib import Path

DISCARDED = re.compile(r"Tracer discarded (\d+) events?|Tracer may have discarded")
# [1795965000.123456789] host net:rx: { cpu_id = 0, vpid = 1, ... }, { vtid = 5 }, { len = 3 }
LINE = re.compile(r"\[(\d+)\.(\d{9})\] (?:\([^)]*\) )?(?:\S+ )?([\w*]+:[\w*]+): (.*)$")
FIELD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|\( [^)]* \)|\[[^\]]*\]|[^,{}\s]+(?: : container = \d+)?)')

Event = collections.namedtuple("Event", "ts name vpid vtid uid procname cpu_id fields")


class Bad(AssertionError):
    """A trace that is not as it must be."""


def need(truth, *what):
    if not truth:
        raise Bad(" ".join(str(w) for w in what))


def babeltrace(path, *args, stdout=subprocess.PIPE):
    """Runs babeltrace2 on a trace with at most 1,024 open files."""
    return subprocess.run(["sh", "-c", 'ulimit -n 1024; exec babeltrace2 "$@"', "sh", *args,
                           str(path)], stdout=stdout, stderr=subprocess.PIPE, text=True,
                          errors="replace", check=False)


def number(text):
    """The value of a field as babeltrace2 prints it."""
    if text.startswith('"'):
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if text.startswith("("):
        return text
    try:
        return int(text, 0)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def total(row):
    """Calls that a process's row of report.json accounts for."""
    return (row["events"] + row["overwritten"] + row["aged"] + row["consumed"] +
            sum(row["left_out"].values()) + sum(row["lost"].values()))


class Trace:
    def __init__(self, path, hostile=False):
        """hostile: a program spoiled its own pool, so what it lost is anybody's guess."""
        self.path, self.hostile = Path(path), hostile
        self.report = json.loads((self.path / "report.json").read_text())
        self.processes = json.loads((self.path / "processes.json").read_text())
        self._check_files()
        self.discarded = self._check_babeltrace()
        self._check_report()

    def _check_files(self):
        need({p.name for p in self.path.iterdir()} == {"report.json", "processes.json", "ctf"},
             "a snapshot holds", [p.name for p in self.path.iterdir()])
        files = list((self.path / "ctf").iterdir())
        need(any(f.name == "metadata" for f in files), "no metadata in", files)
        need(len(files) <= 501, len(files), "files")
        for f in files:
            need(f.is_file() and f.stat().st_size > 0, f, "is empty or no file")
        with open(self.path / "ctf/metadata", "rb") as f:
            need(f.read(9).startswith(b"/* CTF 1."), "metadata does not begin as CTF 1.8 asks")

    def _check_babeltrace(self):
        r = babeltrace(self.path, "--output", "/dev/null")
        need(r.returncode == 0, "babeltrace2 exits", r.returncode, r.stderr)
        total = 0
        for line in r.stderr.splitlines():
            m = DISCARDED.search(line)
            need(m is not None, "babeltrace2 says:", line)
            total += int(m.group(1) or 0)
        return total

    def _check_report(self):
        missing = 0
        for p in self.report["processes"]:
            counts = [p["events"], p["overwritten"], p["aged"], p["consumed"], *p["lost"].values(),
                      *p["left_out"].values()]
            need(min(counts) >= 0, "a count below zero in", p)
            missing += sum(counts[1:])
        need(self.hostile or self.discarded <= missing, "babeltrace2 tells of", self.discarded,
             "discarded events, report.json of", missing)

    def of(self, pid):
        """The report's row of a process."""
        rows = [p for p in self.report["processes"] if p["pid"] == pid]
        need(len(rows) == 1, len(rows), "rows of pid", pid)
        return rows[0]

    def lines(self, *args):
        """Lines of text as babeltrace2 prints them, with the time in seconds of the epoch."""
        with subprocess.Popen(["sh", "-c", 'ulimit -n 1024; exec babeltrace2 "$@" 2>/dev/null', "sh",
                               "--clock-seconds", "--no-delta", *args, str(self.path)],
                              stdout=subprocess.PIPE, text=True, errors="replace",
                              bufsize=1 << 20) as p:
            yield from p.stdout
        need(p.returncode == 0, "babeltrace2 exits", p.returncode)

    def events(self, name=None):
        """All events in order of time, as Event; slow (100,000 a second), see seqs()."""
        last = 0
        for line in self.lines():
            m = LINE.match(line)
            need(m is not None, "cannot read the line", line)
            ts = int(m.group(1)) * 1000000000 + int(m.group(2))
            need(ts >= last, "time falls at", line)
            last = ts
            if name is not None and m.group(3) != name:
                continue
            values = {k: number(v) for k, v in FIELD.findall(m.group(4))}
            values.pop("gen", None)
            yield Event(ts, m.group(3), values.pop("vpid", None), values.pop("vtid", None),
                        values.pop("uid", None), values.pop("procname", None),
                        values.pop("cpu_id", None), values)

    def seqs(self, name="test:seq"):
        """{(vpid, tid): [(ts, seq), ...]} of the writer's events, quickly."""
        found = collections.defaultdict(list)
        seq = re.compile(r"\[(\d+)\.(\d{9})\].* " + re.escape(name) +
                         r": .*vpid = (\d+),.* seq = (\d+), tid = (\d+)")
        for line in self.lines():
            m = seq.match(line)
            if m:
                s, ns, pid, n, tid = m.groups()
                found[int(pid), int(tid)].append((int(s) * 1000000000 + int(ns), int(n)))
        return found

    def check_counts(self):
        """Every event that the report counts is in the trace, and no other. Returns the number."""
        counted = collections.Counter()
        pid = re.compile(r" vpid = (\d+)")
        for line in self.lines():
            counted[int(pid.search(line).group(1))] += 1
        reported = collections.Counter()
        for p in self.report["processes"]:
            reported[p["pid"]] += p["events"]
        reported = +reported
        need(counted == reported, "trace has", dict(counted), "report says", dict(reported))
        return sum(counted.values())


def gaps(seqs, since=0):
    """[(before, after), ...] wherever seq does not rise by one, from a time on. A stream that was
    silent for long may hold older events still, beyond a hole; complete_since is after it."""
    seqs = [s for s in seqs if s[0] >= since]
    return [(a[1], b[1]) for a, b in zip(seqs, seqs[1:]) if b[1] != a[1] + 1]
