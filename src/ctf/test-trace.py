#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes traces with test-make-trace and reads each value back with babeltrace2's own library."""
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import bt2
except ImportError:
    print("no python3-bt2: nothing to read traces with")
    sys.exit(77)

MAKE = sys.argv[1]
FREQ = 2095995123
FIELDS = [
    "a b c d e f g h i j k l m n o".split(),
    ["string", "fixed", "_counted_length", "counted", "event"],
    ["three", "_bytes_length", "bytes", "_f_length", "f", "one", "zero"],
    ["state", "sign", "wide", "bare"],
    ["struct", "same", "same_2", "same_2_2", "_x_length", "_x_length_2", "x", "1st", "", "___",
     "uint8_t", "u8", "_", "timestamp"],
    [],
]
NAMES = ["all:scalars", "all:texts", "all:arrays", "all:enums", 'hostile:names"};\\', "all:nothing"]
IDS = [1, 2, 65534, 65535, 1048575, 7]
LEVELS = [bt2.EventClassLogLevel.INFO, bt2.EventClassLogLevel.DEBUG, bt2.EventClassLogLevel.EMERGENCY,
          bt2.EventClassLogLevel.ERROR, bt2.EventClassLogLevel.INFO, bt2.EventClassLogLevel.INFO]


def labels(name, v):
    if name == "state":
        return {l for l, lo, hi in [("idle", 0, 0), ('busy "and" \\ more', 1, 5), ("overlaps", 3, 9),
                                    ("été", 200, 250), ("idle", 20, 20)] if lo <= v <= hi}
    if name == "sign":
        return {"negative" if v < -1 else "small; }; event {" if v < 2 else "positive"}
    return {"all ones" if v == 2**64 - 1 else "most"}


def plain(v):
    if isinstance(v, (bt2._StringFieldConst,)):
        return str(v)
    if isinstance(v, bt2._ArrayFieldConst):
        return [plain(x) for x in v]
    if isinstance(v, bt2._RealFieldConst):
        return float(v)
    return int(v)


def unix_ns(ts):
    # The clock showed 10^10 ticks at this time of day; rounded as a reader does.
    return 1795965000123456789 + (ts - 10**10) * 1e9 / FREQ


def check(seed):
    with tempfile.TemporaryDirectory() as top:
        trace = os.path.join(top, "ctf")
        os.mkdir(trace)
        made = subprocess.run([MAKE, trace, str(seed)], check=True, capture_output=True, text=True)
        os.rename(trace + "/metadata0", trace + "/metadata")
        want = [json.loads(line) for line in made.stdout.splitlines()]
        lanes = {int(w[1]): (int(w[2]), int(w[3])) for w in
                 (line.split() for line in made.stderr.splitlines())}
        got, discarded, packets, last = [], {}, {}, 0
        for m in bt2.TraceCollectionMessageIterator(top):
            if isinstance(m, bt2._DiscardedEventsMessageConst):
                discarded[m.stream.id] = discarded.get(m.stream.id, 0) + m.count
            elif isinstance(m, bt2._DiscardedPacketsMessageConst):
                raise AssertionError("packets missing")
            elif isinstance(m, bt2._PacketBeginningMessageConst):
                packets[m.packet.stream.id] = packets.get(m.packet.stream.id, 0) + 1
            elif isinstance(m, bt2._StreamBeginningMessageConst):
                env = m.stream.trace.environment
                assert env["hostname"] == 'host "name" é', env["hostname"]
                assert env["tracer_name"] == "varve" and env["domain"] == "ust"
                assert (env["tracer_major"], env["tracer_minor"], env["tracer_patchlevel"]) == (0, 1, 2)
            elif isinstance(m, bt2._EventMessageConst):
                e = m.event
                who = e.packet.context_field if e.stream.cls.id == 0 else e.common_context_field
                got.append((m.default_clock_snapshot, e, {k: plain(who[k]) for k in
                            ("cpu_id", "vpid", "uid", "procname")}, plain(e.common_context_field["vtid"]),
                            e.stream.cls.id))
                ns = m.default_clock_snapshot.ns_from_origin
                assert ns >= last
                last = ns
        assert len(got) == len(want), (len(got), len(want))
        assert {k: n for k, (n, _) in lanes.items()} == {k: n for k, n in packets.items() if k != 1000}
        assert {k: d for k, (_, d) in lanes.items() if d} == discarded, (lanes, discarded)
        assert {c for *_, c in got} == {0, 1}
        key = lambda ts, vpid: (ts, vpid)
        got.sort(key=lambda g: key(g[0].value, g[2]["vpid"]))
        want.sort(key=lambda w: key(w["ts"], w["vpid"]))
        for (clock, e, who, vtid, _), w in zip(got, want):
            which = w["event"]
            assert clock.value == w["ts"]
            assert abs(clock.ns_from_origin - unix_ns(w["ts"])) < 1000, (clock.ns_from_origin, w)
            for k in who:
                assert who[k] == w[k], (k, who, w)
            assert vtid == w["vtid"]
            assert e.name == NAMES[which] and e.id == IDS[which] and e.cls.log_level == LEVELS[which]
            payload = e.payload_field
            if payload is None:
                assert w["fields"] == []
                continue
            assert list(payload) == FIELDS[which], (list(payload), FIELDS[which])
            for name, v in zip(FIELDS[which], w["fields"]):
                g = plain(payload[name])
                same = math.isclose(g, v, rel_tol=1e-15) if isinstance(g, float) else g == v
                assert same, (e.name, name, g, v)
                expected = labels(name, g) if which == 3 and name != "bare" else set()
                if expected:  # asking for the labels of a value without any trips an assertion in bt2
                    assert set(payload[name].labels) == expected, (name, g, payload[name].labels)
        text = subprocess.run(["babeltrace2", top], capture_output=True, text=True)
        assert text.returncode == 0, text.stderr
        assert len(text.stdout.splitlines()) == len(want)
        for line in text.stderr.splitlines():
            assert "Tracer discarded" in line, line
        return len(got)


print(sum(check(seed) for seed in range(1, 9)), "records compared")
