# SPDX-License-Identifier: MIT
"""Life inside somebody else's program: what varve costs there, and what it leaves behind."""

import collections
import os
import re
import signal
import statistics
import subprocess
import time

import pytest

from conftest import SANITIZED, scale, wait_for
from ctf import gaps, need
from measure import accounts, private_dirty


def open_fds(pid):
    return {os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}


def n_threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


@pytest.mark.parametrize("events", ["0", "1000"])
def test_no_thread_no_fd(device, events):
    device.start()
    p = device.spawn([device.stage.program("start"), events], stdin=subprocess.PIPE)
    bare = device.spawn([device.stage.program("start-bare"), events], stdin=subprocess.PIPE)
    p.wait_line("ready")
    bare.wait_line("ready")
    assert device.process(p.pid)["events"] == int(events)
    assert n_threads(p.pid) == 1
    assert len(open_fds(p.pid)) == len(open_fds(bare.pid)) == 3
    assert not any("memfd" in f or "socket" in f for f in open_fds(p.pid))


@pytest.mark.nosan  # measures memory that sanitizers multiply
@pytest.mark.parametrize("events", ["0", "1000"])
def test_private_memory(device, events):
    device.start()
    p = device.spawn([device.stage.program("start"), events], stdin=subprocess.PIPE)
    bare = device.spawn([device.stage.program("start-bare"), events], stdin=subprocess.PIPE)
    p.wait_line("ready")
    bare.wait_line("ready")
    # The library's own text and data are file pages that all programs share; what counts is
    # what this process made its own.
    more = private_dirty(p.pid) - private_dirty(bare.pid)
    print(f"{more / 1024:.0f} KiB private more than the uninstrumented program")
    need(more <= 65536, "an instrumented program costs", more, "private bytes")


@pytest.mark.nosan  # sanitizers make system calls of their own
def test_no_system_call_in_an_event(device):
    """A million events: nothing but a futex wake a second, and the first sub-buffers populated."""
    device.start()
    w = device.spawn(["strace", "-f", "-ttt", "-o", device.dir / "strace",
                      device.stage.program("writer"), "-n", "1000000", "-l", device.logs / "log",
                      "-x"])
    assert w.wait(60) == 0
    (account,) = accounts(device.logs / "log")
    assert account.done == 1000000
    calls, times = collections.Counter(), []
    began = False
    for line in (device.dir / "strace").read_text().splitlines():
        tid, when, call = line.split(None, 2)
        if int(tid) != account.tid or call.startswith("<..."):
            continue
        if call.startswith("gettid"):  # the writer's own, right before its first event
            began = True
        elif began and call.startswith(("madvise", "futex")):
            calls[call.split("(")[0]] += 1
            times.append(float(when))
        elif began and not call.startswith(("exit", "+++", "<...", "munmap", "rt_sigprocmask")):
            pytest.fail(f"an event made a system call: {line}")
    print(dict(calls), f"in {times[-1] - times[0] if times else 0:.1f} s")
    # The thread's end is one. What was promised at the start: 8 small and 8 large sub-buffers at
    # most, and 8 large ones at each tick while the program grows.
    assert calls["madvise"] <= 17 + 8 * (1 + times[-1] - times[0])
    assert calls["futex"] <= 2 + (times[-1] - times[0] if times else 0)


@pytest.mark.nosan  # measures time that sanitizers multiply
@pytest.mark.slow
def test_start_is_cheap(device):
    """An instrumented program that emits one event against the same without."""
    device.start()
    with_events = str(device.stage.program("start"))
    bare = str(device.stage.program("start-bare"))
    def once(path):
        began = time.perf_counter()
        pid = os.posix_spawn(path, [path], device.env)
        _, status = os.waitpid(pid, 0)
        assert status == 0
        return time.perf_counter() - began
    for path in (with_events, bare) * 5:
        once(path)
    extra = []
    for i in range(scale("pairs of starts", 500, 100)):
        if i % 2:
            b, a = once(bare), once(with_events)
        else:
            a, b = once(with_events), once(bare)
        extra.append(a - b)
    median = statistics.median(extra) * 1000
    print(f"start costs {median:.3f} ms more (median of {len(extra)} pairs)")
    need(median <= 1.0, "start costs", median, "ms")


def test_without_a_daemon_nothing_happens(stage, tmp_path):
    for rundir in (tmp_path, tmp_path / "missing"):
        env = {**os.environ, "VARVE_RUNDIR": str(rundir)}
        r = subprocess.run([str(stage.program("writer")), "-n", "1000", "-x"], env=env, text=True,
                           capture_output=True, timeout=60, check=False)
        assert (r.returncode, r.stdout, r.stderr) == (0, "ready\ndone\n", "")


def test_stopped_daemon_holds_nobody_up(device):
    """A daemon that does not answer costs a start at most 60 ms, and no event is held up."""
    device.start()
    device.daemon.kill(signal.SIGSTOP)
    try:
        worst = 0
        for _ in range(5):
            began = time.monotonic()
            r = subprocess.run([str(device.stage.program("writer")), "-n", "100", "-x"],
                               env=device.env, capture_output=True, timeout=60, check=False)
            worst = max(worst, time.monotonic() - began)
            assert r.returncode == 0 and r.stderr == b""
    finally:
        device.daemon.kill(signal.SIGCONT)
    print(f"slowest run {worst * 1000:.0f} ms")
    need(worst < (2 if SANITIZED else 0.2), "a run took", worst, "s")


def test_later_daemon_is_met(devices):
    """Programs started before the daemon, or outliving one, are recorded from their next event on."""
    device = devices()
    device.start()
    w = device.writer("-r", "100")
    w.wait_line("ready")
    wait_for("events", lambda: (device.process(w.pid) or {}).get("events", 0) > 10)
    device.daemon.kill(signal.SIGTERM)
    assert device.daemon.wait() == 0
    early = device.writer("-r", "100")
    early.wait_line("ready")
    device.launch()
    device.start("again")
    for p in (w, early):
        wait_for(f"events of {p.pid} at the new daemon",
                 lambda p=p: (device.process(p.pid) or {}).get("events", 0) > 10)
    assert device.snapshot("again").check_counts() > 20


def test_fork(device):
    """Children are processes of their own; the parent has no gap; none is told twice."""
    device.start()
    n = 60
    p = device.spawn([device.stage.program("forker"), n])
    assert p.wait() == 0
    kinds = {int(a): int(b) for a, b in (line.split() for line in p.stdout.splitlines())}
    device.wait_dead(p.pid, *kinds)
    trace = device.snapshot()
    found = collections.defaultdict(list)
    for e in trace.events("test:child"):
        found[e.vpid].append(e.fields["n"])
    for pid, kind in kinds.items():
        assert found.get(pid, []) == ([] if kind == 0 else list(range(10))), (pid, kind)
        if kind:
            assert trace.of(pid)["ppid"] == p.pid and trace.of(pid)["name"] == "forker"
    parents = trace.seqs("test:parent")
    assert len(parents) == 2 and all(gaps(s) == [] for s in parents.values())
    assert {pid for pid, _ in parents} == {p.pid}
    trace.check_counts()


def test_lock_owned_fallback(device):
    """The same without rseq."""
    device.start()
    env = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
    w = device.writer("-t", "4", "-n", "1000", env=env)
    w.wait_line("done")
    trace = device.snapshot()
    found = trace.seqs()
    assert len(found) == 4 and trace.check_counts() == 4000
    assert all([n for _, n in s] == list(range(1000)) for s in found.values())
    row = trace.of(w.pid)
    assert not any(row["lost"].values()), row


def test_monotonic_clock(devices):
    device = devices(args=["--clock", "monotonic"])
    device.start()
    w = device.writer("-t", "2", "-n", "1000")
    w.wait_line("done")
    trace = device.snapshot()
    assert trace.check_counts() == 2000
    assert abs(trace.of(w.pid)["last_event_at"] - time.time_ns()) < 60 * 10**9
    assert all(gaps(s) == [] for s in trace.seqs().values())
    assert re.search("mono", str(trace.report["clock"]).lower())
