# SPDX-License-Identifier: MIT
"""Processes that die: their data stay, nobody else suffers."""

import itertools
import random
import signal
import time

import pytest

import ctf
from conftest import SLOWNESS, scale, wait_for
from ctf import gaps, need
from measure import accounts, emitted


def seqs_of(trace, pid):
    return [s for (p, _), s in trace.seqs().items() if p == pid]


def test_killed_writer_keeps_its_data(device):
    """The last thing a killed process said is there, with its pid and name."""
    device.start("s", window="30s")
    log = device.logs / "log"
    w = device.writer("-n", "1000", "-l", log)
    w.wait_line("done")
    w.kill()
    assert w.wait() == -signal.SIGKILL
    device.wait_dead(w.pid)
    trace = device.snapshot()
    assert trace.check_counts() == 1000
    row = trace.of(w.pid)
    assert row["alive"] is False and row["name"] == "writer" and row["events"] == 1000
    assert row["started_at"] <= row["last_event_at"] <= row["ended_at"] <= trace.report["taken_at"]
    ((_, found),) = trace.seqs().items()
    assert [seq for _, seq in found] == list(range(1000))
    e = next(iter(trace.events()))
    assert e.vpid == w.pid and e.procname == "writer"
    assert row["end_status"] in (None, signal.SIGKILL, 128 + signal.SIGKILL)


@pytest.mark.slow
def test_two_thousand_short_processes(device):
    """Short processes leave what they said, and only for the window."""
    n = scale("short processes", 2000, 400)
    window = scale("window in seconds", 30, 12)
    device.start("s", window=f"{window}s")
    other = device.writer("-r", "20")
    other.wait_line("ready")
    used_before = device.session()["used"]
    began = time.monotonic()
    running, pids = [], []
    for i in range(n):
        p = device.writer("-n", "10", "-x")
        running.append(p)
        pids.append(p.pid)
        if len(running) == 50:
            assert running.pop(0).wait() == 0
    for p in running:
        assert p.wait() == 0
    ended = time.monotonic()
    need(ended - began < window, "the processes took", ended - began, "s, longer than the window")
    device.wait_dead(*pids)
    trace = device.snapshot()
    rows = {p["pid"]: p for p in trace.report["processes"]}
    assert all(rows[pid]["events"] == 10 for pid in pids)
    assert trace.check_counts() == 10 * n + rows[other.pid]["events"]
    peak = device.session()
    print(f"{n} processes in {ended - began:.1f} s; store {peak['store_used']} bytes")

    # A window later they are history.
    def forgotten():
        s = device.session()
        return s["store_used"] == 0 and s["pools"] == 1 and s["used"] <= used_before + 2 * 65536
    wait_for("the memory of the dead to be back", forgotten, window + 10, 0.2)
    trace = device.snapshot()
    later = {p["pid"]: p["events"] for p in trace.report["processes"]}
    assert later[other.pid] > 0
    assert not any(later.get(pid) for pid in pids)


@pytest.mark.slow
def test_kills_harm_nobody_else(device):
    """Writers at full rate are killed at random moments; a witness has no gap."""
    kills = scale("kills", 500, 60)
    device.start("s", f"{scale('budget in MiB', 32, 8)}M", "20s")
    logs, numbers = {}, itertools.count()
    def loud():
        log = device.logs / f"log-{next(numbers)}"
        p = device.writer("-l", log)
        logs[p.pid] = log
        return p
    witness = device.writer("-r", "100", "-l", device.logs / "witness")
    witness.wait_line("ready")
    writers = [loud() for _ in range(8)]
    for w in writers:
        w.wait_line("ready")
    before = device.session()["used"]
    rng = random.Random(1)
    dead = []
    slowest = 0
    for i in range(1, kills + 1):
        time.sleep(rng.random() * 0.04)
        victim = writers.pop(rng.randrange(8))
        victim.kill()
        victim.wait()
        dead.append(victim.pid)
        writers.append(loud())
        if i % 10 == 0:
            began = time.monotonic()
            taken = device.snapshot(check=False)
            slowest = max(slowest, time.monotonic() - began)
            # Reading takes its time, and would take ten times that beside eight busy loops.
            for w in writers:
                w.kill(signal.SIGSTOP)
            trace = ctf.Trace(taken)
            found = trace.seqs()
            ((_, seen),) = [(k, v) for k, v in found.items() if k[0] == witness.pid]
            since = trace.of(witness.pid)["complete_since"]
            need(gaps(seen, since) == [], "the witness has gaps", gaps(seen, since), len(seen),
                 trace.of(witness.pid))
            need(since <= max(seen[0][0], trace.report["taken_at"] - 19 * 10**9),
                 "the witness is complete only since", trace.report["taken_at"] - since, "ns")
            # Those killed before their first event have nothing to be found.
            # (And reading a trace may take longer than the window: earlier ones may be forgotten.)
            fresh = [pid for pid in dead[-10:] if emitted(logs[pid])[1] > 0]
            newest = fresh[-1]
            done, begun = emitted(logs[newest])
            last = max((s[-1][1] for (pid, _), s in found.items() if pid == newest), default=-1)
            need(done - 1 <= last <= begun - 1, "killed after", done, "events, last in trace", last)
            for pid in fresh:
                row = trace.of(pid)
                done, begun = emitted(logs[pid])
                total = (row["events"] + row["overwritten"] + row["aged"] + row["consumed"] +
                         sum(row["left_out"].values()) + sum(row["lost"].values()))
                need(done <= total <= begun, "pid", pid, "did", done, begun, "reported", row)
            for w in writers:
                w.kill(signal.SIGCONT)
    need(slowest < 2 * SLOWNESS, "a snapshot took", slowest, "s")
    print(f"slowest snapshot {slowest:.2f} s")
    began = time.monotonic()
    device.varve("stop", "s")
    assert time.monotonic() - began < 2 * SLOWNESS
    after = device.session()
    assert after["used"] <= max(before, after["budget"])
    for w in writers:
        w.kill()
        w.wait()
    assert witness.end() == 0
    device.wait_dead(*logs, witness.pid)
    wait_for("the pools of the dead to go", lambda: device.session()["pools"] == 0)
    device.varve("destroy", "s")


def test_killed_amid_events(device):
    """Each killed thread misses at most the event that it was in."""
    device.start("s", "4M")
    for i in range(scale("kills", 200, 15)):
        log = device.logs / f"log-{i}"
        w = device.writer("-l", log)
        w.wait_line("ready")
        w.kill()
        w.wait()
        device.wait_dead(w.pid)
        trace = device.snapshot()
        found = trace.seqs()
        for a in accounts(log):
            seen = found[w.pid, a.tid]
            need(seen, "nothing of thread", a)
            need(a.done - 1 <= seen[-1][1] <= a.begun - 1, a, "last in trace", seen[-1])
            need(gaps(seen) == [], "holes", gaps(seen))
