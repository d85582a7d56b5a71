# SPDX-License-Identifier: MIT
"""Snapshots while everything moves: writers at full speed, deaths, readers that stop reading."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import wait_for
from ctf import Trace, gaps, need, total
from measure import emitted
from test_cases_reader import check_packets
from test_hostile import pool_of


@pytest.mark.slow
def test_loud_ones_have_no_hole(device):
    """More threads at full speed than CPUs: the newest part is there, whole; the sums are exact."""
    device.start("s", "8M", window="5s")
    logs = {}
    for args in (["-t", "1"], ["-t", "2"], ["-r", "100"]):
        log = device.dir / f"log-{len(logs)}"
        w = device.writer(*args, "-l", log)
        w.wait_line("ready")
        logs[w.pid] = log
    *louds, quiet = logs
    full = 0.8 * 8 * 2**20
    wait_for("the budget to be in use", lambda: device.session()["used"] > full)
    wait_for("a window", lambda: emitted(logs[quiet])[0] > 600)
    for _ in range(3):
        before = {pid: emitted(log)[0] for pid, log in logs.items()}
        trace = device.snapshot()
        after = {pid: emitted(log)[1] for pid, log in logs.items()}
        check_packets(trace)
        trace.check_counts()
        taken_at = trace.report["taken_at"]
        for (pid, _), seen in trace.seqs().items():
            since = trace.of(pid)["complete_since"]
            need(gaps(seen, since) == [], pid, "has gaps:", gaps(seen, since)[:5])
            # What lies before is taken out, but for a packet that went while its part was cut.
            need(len(gaps(seen)) <= 1, pid, "has islands:", gaps(seen)[:5])
        for pid in logs:
            row = trace.of(pid)
            need(before[pid] <= total(row) <= after[pid], before[pid], row, after[pid])
            assert row["complete_since"] <= row["last_event_at"] <= taken_at
        need(trace.of(quiet)["complete_since"] <= taken_at - 5 * 10**9, taken_at, trace.of(quiet))
        assert trace.of(quiet)["overwritten"] == trace.of(quiet)["left_out"]["raced"] == 0
        held = sum(trace.of(pid)["bytes"] for pid in louds)
        need(held > full / 2, "the loud ones have", held, "bytes")


def test_nothing_older_than_the_window(device):
    """A slow writer's packet is cut at the window; what was before counts as aged."""
    device.start("s", "4M", window="2s")
    log, silent_log = device.dir / "log", device.dir / "silent"
    silent = device.writer("-n", "1", "-l", silent_log)
    silent.wait_line("done")
    w = device.writer("-r", "20", "-l", log)
    w.wait_line("ready")
    wait_for("five seconds of events", lambda: emitted(log)[0] > 100)
    trace = device.snapshot()
    row = trace.of(w.pid)
    taken_at = trace.report["taken_at"]
    assert taken_at - 3 * 10**9 <= row["first_event_at"] <= taken_at - 2 * 10**9
    assert row["complete_since"] <= taken_at - 2 * 10**9
    assert row["overwritten"] == 0 and row["aged"] >= 40
    ((_, seen),) = [(k, v) for k, v in trace.seqs().items() if k[0] == w.pid]
    assert gaps(seen) == [] and seen[0][1] == row["aged"] and len(seen) == row["events"]
    # The silent one is there, with nothing to say.
    row = trace.of(silent.pid)
    assert row["events"] == 0 and row["aged"] == 1 and row["alive"]
    assert row["first_event_at"] is None
    # And asking for less gives less.
    row = device.snapshot("s", "--last", "1s").of(w.pid)
    assert row["events"] < 40 and row["overwritten"] == 0


def test_deaths_meanwhile(device):
    """Writers are killed while snapshots are made; each trace is whole and each sum exact."""
    device.start("s", "2M", window="10s")
    ended, stop, errors = {}, threading.Event(), []

    def kill_on():
        n = 0
        try:
            while not stop.is_set():
                logs = [device.dir / f"log-{n}-{i}" for i in range(3)]
                ws = [device.writer("-l", log, *args)
                      for log, args in zip(logs, (["-t", "2"], [], ["-r", "1000"]))]
                for w in ws:
                    w.wait_line("ready")
                time.sleep(0.05)
                for w, log in zip(ws, logs):
                    w.kill()
                    w.wait()
                    ended[w.pid] = emitted(log)
                n += 1
        except BaseException as e:  # pylint: disable=broad-except
            errors.append(e)

    killer = threading.Thread(target=kill_on)
    killer.start()
    seen = set()
    try:
        wait_for("the first deaths", lambda: ended or errors)
        for _ in range(10):
            known = dict(ended)
            trace = device.snapshot()
            check_packets(trace)
            trace.check_counts()
            rows = {p["pid"]: p for p in trace.report["processes"]}
            for pid, (done, begun) in known.items():
                if pid in rows:
                    need(done <= total(rows[pid]) <= begun, pid, done, begun, rows[pid])
                    seen.add(pid)
    finally:
        stop.set()
        killer.join()
    assert not errors, errors
    print(f"{len(seen)} dead accounted for")
    assert len(seen) >= 6


def ask(device, request):
    """A raw connection that has sent a request and read the answer line."""
    s = socket.socket(socket.AF_UNIX)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(str(device.rundir / "ctl.sock"))
    s.sendall(json.dumps(request).encode() + b"\n")
    line = b""
    while not line.endswith(b"\n"):
        line += s.recv(1)
    return s, json.loads(line)


@pytest.mark.slow
def test_reader_that_stops_reading(device):
    """It loses its snapshot, the device loses nothing, and what was held for it is free again."""
    device.start("s", "8M")
    log = device.dir / "log"
    w = device.writer("-l", log)
    w.wait_line("ready")
    wait_for("the budget to be in use", lambda: device.session()["used"] > 4 << 20)
    stalled = [ask(device, {"verb": "snapshot", "session": "s"}) for _ in range(2)]
    assert all(answer["ok"] for _, answer in stalled)
    busy, answer = ask(device, {"verb": "snapshot", "session": "s"})
    busy.close()
    assert not answer["ok"] and "under way" in answer["error"]
    went_on = emitted(log)[0]
    began = time.monotonic()
    wait_for("a snapshot to be possible again",
             lambda: device.varve("snapshot", "s", "-o", device.dir / "again", check=False)
             .returncode == 0, 30, 0.5)
    print(f"free again after {time.monotonic() - began:.1f} s")
    trace = Trace(device.dir / "again")
    trace.check_counts()
    ((_, seen),) = trace.seqs().items()
    assert gaps(seen) == [] and seen[-1][1] > went_on
    assert trace.of(w.pid)["lost"]["nobuf"] == 0
    for s, _ in stalled:
        s.close()
    # A reader that goes away is noticed at once.
    gone, answer = ask(device, {"verb": "snapshot", "session": "s"})
    assert answer["ok"]
    gone.close()
    for _ in range(3):
        device.snapshot().check_counts()


SUB = struct.Struct("<QQQQ")  # struct sub_header: id, begin_ts, n_before, lost; also an entry


def finished(fd):
    """{gen: (offset in the pool, n_before)} of the finished sub-buffers of a pool."""
    head = os.pread(fd, 128, 0)
    region_shift, _, n_classes, *rest = struct.unpack_from("<9I", head, 40)
    shifts, counts = rest[:3], rest[3:]
    found, entry = {}, 2048
    for c in range(n_classes):
        for idx in range(counts[c]):
            state, close, _, _ = SUB.unpack(os.pread(fd, SUB.size, entry))
            entry += SUB.size
            if state >> 61 == 2 and close >> 32 == state & 0x7fffffff:  # ACTIVE, closed in this life
                at = ((c + 1) << region_shift) + (idx << shifts[c])
                found[state & 0x7fffffff] = at, SUB.unpack(os.pread(fd, SUB.size, at))[2]
    return found


def test_bad_packets_are_left_out(device):
    """One unknown id, one false header, one time that falls: three packets less, all accounted for."""
    device.start("s", "4M")
    log = device.dir / "log"
    w = device.spawn(["taskset", "-c", "0", device.stage.program("writer"), "-r", 2000, "-l", log],
                     stdin=subprocess.PIPE)
    wait_for("it to attach", lambda: device.process(w.pid))
    fd = pool_of(device)
    wait_for("packets", lambda: len(finished(fd)) >= 8)
    w.kill(signal.SIGSTOP)
    wait_for("it to stop", lambda: re.search(r"State:\s+T", Path(f"/proc/{w.pid}/status").read_text()))
    n = emitted(log)
    packets = finished(fd)
    at = {gen: off for gen, (off, _) in packets.items()}
    count = {gen: packets[gen + 1][1] - packets[gen][1] for gen in packets if gen + 1 in packets}
    bad_id, bad_head, bad_time = sorted(count)[1:7:2]
    os.pwrite(fd, struct.pack("<H", 60000), at[bad_id] + SUB.size)
    os.pwrite(fd, struct.pack("<Q", 1), at[bad_head])
    os.pwrite(fd, struct.pack("<I", 0), at[bad_time] + SUB.size + 2 + 22 * (count[bad_time] - 1))
    os.close(fd)

    def check(trace):
        check_packets(trace)
        row = trace.of(w.pid)
        assert row["left_out"] == {"bad_record": count[bad_id], "bad_header": count[bad_head],
                                   "bad_time": count[bad_time], "raced": 0}
        assert n[0] <= total(row) <= n[1] and row["overwritten"] == 0
        assert row["events"] == trace.check_counts()
        assert trace.discarded == sum(row["left_out"].values())
        ((_, seen),) = trace.seqs().items()
        assert [b - a - 1 for a, b in gaps(seen)] == [count[bad_id], count[bad_head], count[bad_time]]
        assert row["complete_since"] > seen[0][0]

    check(device.snapshot())
    # It is the same when the process is dead and its packets are in the store.
    w.kill()
    w.wait()
    device.wait_dead(w.pid)
    wait_for("the store to have all", lambda: device.session()["pools"] == 0)
    check(device.snapshot())


def test_daemon_ends_while_a_reader_stalls(device):
    """Also when a process died whose pool is held for it."""
    device.start("s", "8M")
    w = device.writer("-n", "200000")
    w.wait_line("done")
    stalled, answer = ask(device, {"verb": "snapshot", "session": "s"})
    assert answer["ok"]
    w.kill()
    w.wait()
    device.wait_dead(w.pid)
    began = time.monotonic()
    device.daemon.kill(signal.SIGTERM)
    assert device.daemon.wait() == 0
    assert time.monotonic() - began < 5
    stalled.close()
