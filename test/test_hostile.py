# SPDX-License-Identifier: MIT
"""Rubbish from programs: in their own pool, on the sockets. Nobody else loses anything, the daemon
lives, and every snapshot reads."""

import os
import random
import socket

import pytest

from conftest import scale
from ctf import gaps
from measure import pool_fds, pool_memory


def pool_of(device):
    """A writable fd of the only pool that a device has."""
    for path in pool_fds(device.daemon.pid):
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        if pool_memory(fd):
            return fd
        os.close(fd)
    return pytest.fail("the daemon has no pool")


@pytest.mark.parametrize("seed", range(6))
def test_scribbled_pool(device, seed):
    """A program's whole pool, or parts of it, becomes rubbish while it writes."""
    device.start("s", "4M")
    sick = device.writer("-r", "2000")
    sick.wait_line("ready")
    fd = pool_of(device)
    well = device.writer("-r", "200")
    well.wait_line("ready")
    rng = random.Random(seed)
    size = os.fstat(fd).st_size
    for _ in range(scale("rounds", 200, 15)):
        for _ in range(rng.choice((1, 10, 200))):
            # Most of it where the words of state are; some in the sub-buffers.
            at = rng.choice((rng.randrange(8192), rng.randrange(65536), rng.randrange(size // 4096) * 4096))
            word = rng.choice((rng.randbytes(8), b"\xff" * 8, b"\0" * 8, rng.randbytes(100)))
            if at < size - 128:
                os.pwrite(fd, word, at)
        trace = device.snapshot(hostile=True)
        seen = [s for (pid, _), s in trace.seqs().items() if pid == well.pid]
        assert seen and gaps(seen[0]) == []
        row = trace.of(well.pid)
        assert row["events"] + row["aged"] + row["overwritten"] >= seen[0][-1][1] + 1
        assert not any(row["lost"].values()) and not any(row["left_out"].values())
        trace.check_counts()
    os.close(fd)
    sick.kill()
    sick.wait()
    device.wait_dead(sick.pid)
    device.snapshot(hostile=True).check_counts()
    assert well.end() == 0


@pytest.mark.parametrize("name, kind", [("app.sock", socket.SOCK_SEQPACKET),
                                        ("ctl.sock", socket.SOCK_STREAM)])
def test_rubbish_on_the_sockets(device, name, kind):
    device.start()
    rng = random.Random(7)
    for i in range(200):
        with socket.socket(socket.AF_UNIX, kind) as s:
            s.settimeout(20)
            s.connect(str(device.rundir / name))
            try:
                for _ in range(rng.randrange(4)):
                    s.send(rng.choice((rng.randbytes(rng.randrange(1, 3000)), b"{}\n", b"\n" * 9,
                                       b'{"verb":"status","x":1}\n', b"[" * 2000 + b"\n",
                                       b"Vrve" + rng.randbytes(200))))
            except (BrokenPipeError, ConnectionResetError):
                pass
    w = device.writer("-n", "100")
    w.wait_line("done")
    assert device.snapshot().check_counts() == 100
