# SPDX-License-Identifier: MIT
"""What a reader of CTF may rely on, packet by packet, beyond what babeltrace2 complains of."""

import os
import shutil
import struct

import pytest

from conftest import scale, wait_for
from ctf import Bad, Trace, babeltrace, gaps, need
from measure import emitted

HEAD = struct.Struct("<I16sIQ")  # magic, uuid, stream id, stream instance id
CONTEXT = struct.Struct("<QQQQQQ")  # begin, end, content bits, packet bits, seq, discarded


def packets(path):
    """[(uuid, begin, end, content bytes, packet bytes, seq, discarded), ...] of one stream file."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        magic, uuid, _, _ = HEAD.unpack_from(data, at)
        begin, end, content, size, seq, discarded = CONTEXT.unpack_from(data, at + HEAD.size)
        need(magic == 0xC1FC1FC1, path, "no packet at", at)
        need(size % 8 == content % 8 == 0 and 0 < content <= size, path, content, size)
        yield uuid, begin, end, content // 8, size // 8, seq, discarded
        at += size // 8
    need(at == len(data), path, "packets end at", at, "of", len(data))


def check_packets(trace):
    """All stream files of a trace. Returns its uuid."""
    uuids = set()
    for path in sorted((trace.path / "ctf").iterdir()):
        if path.name == "metadata":
            continue
        last_end = last_discarded = 0
        for n, (uuid, begin, end, _, _, seq, discarded) in enumerate(packets(path)):
            uuids.add(uuid)
            need(last_end <= begin <= end, path, "times of packet", n, last_end, begin, end)
            need(seq == n and discarded >= last_discarded, path, "packet", n, seq, discarded)
            last_end, last_discarded = end, discarded
    need(len(uuids) == 1, "uuids of the packets:", uuids)
    return uuids.pop()


def test_every_packet(device):
    device.start("s", "8M")
    writers = [device.writer("-t", "2", "-n", "5000"), device.writer("-n", "3", "-s", "text"),
               device.writer("-r", "200")]
    for w in writers[:2]:
        w.wait_line("done")
    writers[2].wait_line("ready")
    a, b = device.snapshot(), device.snapshot()
    assert check_packets(a) != check_packets(b)
    assert a.check_counts() >= 10006


@pytest.mark.slow
def test_descriptions_outlive_the_ring(device):
    """What was said once, at the start, still resolves after the ring went round many times."""
    rounds = scale("ring lengths overwritten", 20, 5)
    device.start("s", "2M")
    log = device.logs / "log"
    w = device.writer("-l", log, "-s", "once more")
    w.wait_line("ready")
    per_event = 22 + 28
    wait_for("the ring to go round", lambda: emitted(log)[0] * per_event > rounds * (2 << 20), 60)
    w.kill()
    w.wait()
    device.wait_dead(w.pid)
    trace = device.snapshot()
    check_packets(trace)
    names = set()
    for e in trace.events():
        names.add(e.name)
        assert e.procname == "writer" and e.vpid == w.pid
        assert set(e.fields) == ({"seq", "tid"} if e.name == "test:seq" else {"seq", "text"})
    assert names == {"test:seq", "test:note"}
    assert trace.of(w.pid)["overwritten"] > 0
    ((_, seen),) = trace.seqs().items()
    assert gaps(seen) == []


def test_more_streams_than_files(device):
    """More processes at one time than a reader may have files open."""
    n = scale("processes at one time", 1100, 560)
    device.start("s", "64M")
    writers = [device.writer("-n", "5") for _ in range(n)]
    for w in writers:
        w.wait_line("done")
    # All alive and overlapping: later events of each begin after the first ones of all.
    trace = device.snapshot()
    check_packets(trace)
    assert trace.check_counts() == 5 * n
    assert {p for p, _ in trace.seqs()} == {w.pid for w in writers}
    files = len(list((trace.path / "ctf").iterdir()))
    print(f"{n} processes in {files} files")
    for w in writers:
        assert w.end() == 0


def test_order_across_processes(device):
    """Tokens passed between processes appear in order, also from another time namespace."""
    rounds = 2000
    device.start()
    for name in ("a", "b"):
        os.mkfifo(device.dir / name)
    program = device.stage.program("pingpong")
    other = [program, device.dir / "a", device.dir / "b", "0", rounds]
    if os.getuid() == 0 and os.path.exists("/proc/self/ns/time"):
        other = ["unshare", "--time", "--monotonic", "100000", "--boottime", "100000", "--fork",
                 "--", *other]
    one = device.spawn([program, device.dir / "b", device.dir / "a", "1", rounds])
    two = device.spawn(other)
    assert two.wait() == 0 and one.wait() == 0
    tokens = [e.fields["n"] for e in device.snapshot().events("test:token")]
    assert tokens == list(range(2 * rounds))


def test_the_reader_of_these_tests_can_say_no(device):
    """A spoilt copy of a good trace must not pass: else nothing here proves anything."""
    device.start()
    device.writer("-n", "2000").wait_line("done")
    good = device.snapshot()
    def spoilt(change):
        copy = device.dir / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(good.path, copy)
        stream = max((f for f in (copy / "ctf").iterdir() if f.name != "metadata"),
                     key=lambda f: f.stat().st_size)
        change(stream)
        with pytest.raises(Bad):
            trace = Trace(copy)
            check_packets(trace)
            trace.check_counts()
    spoilt(lambda f: f.write_bytes(f.read_bytes()[:-100]))
    spoilt(lambda f: f.write_bytes(b""))
    spoilt(lambda f: f.write_bytes(b"\0" * 64 + f.read_bytes()[64:]))
    spoilt(lambda f: f.unlink())
    assert babeltrace(good.path).returncode == 0
