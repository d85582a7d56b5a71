# SPDX-License-Identifier: MIT
"""One budget for all: who keeps what, and what is said of it."""

import time

import pytest

from conftest import scale, wait_for
from ctf import gaps, need, total
from measure import Sampler, accounts, emitted, pools

SECOND = 10**9
JITTER = SECOND // 5  # a writer may come a little late to its next event


def check_quiet(trace, pid, log, window):
    """A quiet writer's window is whole, and complete_since says so."""
    row = trace.of(pid)
    need(not any(row["lost"].values()) and not any(row["left_out"].values()), "quiet one lost", row)
    since = row["complete_since"]
    need(since <= trace.report["taken_at"] - window or since <= row["started_at"] or
         row["overwritten"] == row["aged"] == 0, "quiet one is complete since",
         (trace.report["taken_at"] - since) / SECOND, "s only", row)


@pytest.mark.slow
def test_one_loud_and_forty_quiet(device):
    """Quiet writers keep their whole window, the loud one has the newest part
    that fits; memory never exceeds the budget; the figures agree with the writers' own."""
    seconds = scale("recording in seconds", 120, 24)
    window = scale("window in seconds", 30, 10)
    budget = scale("budget in MiB", 32, 16)
    device.start("s", f"{budget}M", f"{window}s")
    store = [0]
    sampler = Sampler(device.daemon.pid, lambda: store[0])
    quiet = {}
    for i in range(40):
        log = device.logs / f"quiet-{i}"
        rate = 1 + i * 99 // 39
        w = device.writer("-r", rate, "-l", log, uid=3000 + i % 5)
        quiet[w.pid] = (w, log, rate)
    for w, _, _ in quiet.values():
        w.wait_line("ready")
    loud_log = device.logs / "loud"
    loud = device.writer("-l", loud_log)
    loud.wait_line("ready")
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        store[0] = device.session()["store_used"]
        time.sleep(0.5)

    before = {pid: emitted(log) for pid, (_, log, _) in quiet.items()}
    loud_before = emitted(loud_log)
    trace = device.snapshot()
    loud_after = emitted(loud_log)
    after = {pid: emitted(log) for pid, (_, log, _) in quiet.items()}
    rate_of_loud = loud_after[1] / (time.monotonic() - began)
    found = trace.seqs()

    for (pid, tid), seen in found.items():
        since = trace.of(pid)["complete_since"]
        need(gaps(seen, since) == [], "pid", pid, "has holes", gaps(seen, since)[:5])
    taken = trace.report["taken_at"]
    for pid, (_, log, rate) in quiet.items():
        check_quiet(trace, pid, log, window * SECOND)
        (tid,) = [a.tid for a in accounts(log)]
        seen = found[pid, tid]
        # Whole: from before the window's begin (or the first event) up to the cut.
        need(seen[0][1] == 0 or seen[0][0] <= taken - window * SECOND + SECOND // rate + JITTER,
             "rate", rate, "begins", (taken - seen[0][0]) / SECOND, "s before the cut")
        need(before[pid][0] - 1 <= seen[-1][1] < after[pid][1], "rate", rate, "ends at", seen[-1])
        need(before[pid][0] <= total(trace.of(pid)) <= after[pid][1], "counts of", trace.of(pid))
    row = trace.of(loud.pid)
    need(loud_before[0] <= total(row) <= loud_after[1], "loud:", loud_before, loud_after, row)
    seen = found[loud.pid, accounts(loud_log)[0].tid]
    need(loud_before[0] - 1 <= seen[-1][1] < loud_after[1], "the loud one's newest is", seen[-1])
    whole = [s for s in seen if s[0] >= row["complete_since"]]
    held = (taken - whole[0][0]) / SECOND
    need(abs((taken - row["complete_since"]) / SECOND - held) < 0.1, "the loud one holds", held,
         "s, the report says", (taken - row["complete_since"]) / SECOND)
    need(len(whole) >= 0.9 * len(seen), "the loud one has", len(seen), "events,", len(whole),
         "of them without a hole")
    bytes_of_loud = row["bytes"]
    need(bytes_of_loud > budget * 2**20 * 0.5, "the loud one got", bytes_of_loud, "bytes only")
    # Its records per second, by its own log.
    print(f"loud: {rate_of_loud / 1e6:.2f} M events/s, holds {held:.2f} s, "
          f"{bytes_of_loud / 2**20:.1f} MiB; peak of sub-buffers and store "
          f"{sampler.peak / 2**20:.2f} MiB in {sampler.samples} samples; base "
          f"{sampler.peak_base / 1024:.0f} KiB")

    # The loud one falls silent: the quiet ones stay as they are.
    assert loud.end() == 0
    pause = scale("silence of the loud one in seconds", 60, 8)
    end = time.monotonic() + pause
    while time.monotonic() < end:
        store[0] = device.session()["store_used"]
        time.sleep(0.5)
    trace = device.snapshot()
    found = trace.seqs()
    taken = trace.report["taken_at"]
    for pid, (_, log, rate) in quiet.items():
        check_quiet(trace, pid, log, window * SECOND)
        seen = found[pid, accounts(log)[0].tid]
        need(gaps(seen) == [], "after: rate", rate, "has holes", gaps(seen)[:5], trace.of(pid))
        need(seen[0][1] == 0 or seen[0][0] <= taken - window * SECOND + SECOND // rate + JITTER,
             "after: rate", rate, "begins", (taken - seen[0][0]) / SECOND, "s before the cut")
    sampler.close()
    need(sampler.samples > seconds * 4, "only", sampler.samples, "samples")
    need(sampler.peak <= budget * 2**20, "the budget was exceeded:", sampler.peak)


@pytest.mark.slow
def test_window_is_honoured(device):
    """Nothing older than the window and one granule; a silent process is there, and silent."""
    window = scale("window in seconds", 10, 4)
    silence = scale("silence in seconds", 300, 14)
    device.start("s", window=f"{window}s")
    a = device.writer("-n", "1")
    a.wait_line("done")
    b = device.writer("-r", "1000")
    b.wait_line("ready")
    time.sleep(silence)
    trace = device.snapshot()
    taken = trace.report["taken_at"]
    seen = [s for (pid, _), s in trace.seqs().items() if pid == b.pid][0]
    # One granule: a sub-buffer of 64 KiB at 22 bytes a record is 3 s of b; one tick more.
    granule = 65536 / 22 / 1000 + 1
    age = (taken - seen[0][0]) / SECOND
    print(f"window {window} s, oldest event {age:.2f} s, granule {granule:.2f} s")
    need(window <= age + 0.01 and age <= window + granule, "oldest is", age, "s old")
    row = trace.of(a.pid)
    need(row["alive"] and row["events"] == 0 and row["aged"] == 1, "the silent one:", row)
    need(not any(pid == a.pid for pid, _ in trace.seqs()), "an event of long ago")


@pytest.mark.slow
def test_budget_shorter_than_the_window(device):
    """A budget that cannot hold the window is said so, in figures that are true."""
    device.start("s", "2M", "20s")
    b = device.writer("-r", "20000")
    b.wait_line("ready")
    wait_for("more than fits", lambda: device.process(b.pid)["events"] > 20000 * 8, 30, 0.2)
    trace = device.snapshot()
    taken, row = trace.report["taken_at"], trace.of(b.pid)
    ((_, seen),) = trace.seqs().items()
    seen = [s for s in seen if s[0] >= row["complete_since"]]
    held = (taken - seen[0][0]) / SECOND
    said = trace.report["held_ns"] / SECOND
    print(f"asked for 20 s, holds {held:.2f} s, says {said:.2f} s")
    need(gaps(seen) == [], "holes", gaps(seen)[:3])
    need(abs(held - said) < 0.3 and said < 20, "held", held, "says", said)
    need(row["overwritten"] > 0 and seen[0][0] - row["complete_since"] < 0.1 * SECOND, row)
    need(len(seen) >= 0.9 * row["events"], "of", row["events"], "events only", len(seen),
         "are without a hole")
    need(trace.report["window_ns"] == 20 * SECOND, trace.report["window_ns"])


def test_burst_finds_the_free_budget(device):
    """What a process's first events call the daemon for is a burst that has only begun."""
    device.start(budget="64M")
    control = device.rundir / "control"  # asleep, a u32 at 28: 1 when any switch is to wake it
    wait_for("the daemon to sleep", lambda: control.read_bytes()[28:32] == b"\1\0\0\0")
    w = device.writer("-r", "200000", "-n", "100000")
    w.wait_line("done")
    p = device.snapshot().of(w.pid)
    need(p["events"] == 100_000 and p["overwritten"] == 0, p)


def test_what_a_process_costs(device):
    """A page for a process that never emitted, four for one that did on one CPU."""
    device.start()
    before = pools(device.daemon.pid)
    idle = device.writer("-t", "0")
    idle.wait_line("ready")
    one = wait_for("the pool of the idle one", lambda: (p := pools(device.daemon.pid)).n >
                   before.n and p)
    need(one.base + one.subs - before.base - before.subs <= 4096, "an idle process costs", one)
    w = device.spawn(["taskset", "-c", "0", device.stage.program("writer"), "-n", "1", "-x"])
    assert w.wait() == 0
    w = device.spawn(["taskset", "-c", "0", device.stage.program("writer"), "-n", "1"],
                     stdin=-1)
    w.wait_line("done")
    two = pools(device.daemon.pid)
    need(two.base + two.subs - one.base - one.subs <= 16384, "a process that emitted costs",
         two, one)
