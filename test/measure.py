# SPDX-License-Identifier: MIT
"""Looking at varve from outside: its shared memory as the kernel counts it, the writers' accounts."""

import collections
import os
import struct
import threading

PAGE = 4096
POOL_MAGIC = 0x314C4F4F50565256
ACCOUNT = struct.Struct("<QQQ40x")  # struct account of test/programs/writer.c

Account = collections.namedtuple("Account", "tid begun done")
Pools = collections.namedtuple("Pools", "n subs base")


def accounts(path):
    """What each thread of a writer has emitted, as the writer itself counts it."""
    data = path.read_bytes()
    rows = [Account(*ACCOUNT.unpack_from(data, at)) for at in range(0, len(data), ACCOUNT.size)]
    return [r for r in rows if r.tid]


def emitted(path):
    """(calls that returned, calls begun) of all threads; none of a writer killed before main."""
    rows = accounts(path) if path.exists() else []
    return sum(r.done for r in rows), sum(r.begun for r in rows)


def _data_pages(fd, end):
    """Pages of memory that a sparse file has below end."""
    n = at = 0
    while at < end:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        if at >= end:
            break
        hole = min(os.lseek(fd, at, os.SEEK_HOLE), end)
        n += (hole - at + PAGE - 1) // PAGE
        at = hole
    return n


def pool_memory(fd):
    """(bytes of sub-buffers, bytes of header and tables) of one pool; None if it is no pool."""
    head = os.pread(fd, 64, 0)
    if len(head) < 64 or struct.unpack_from("<Q", head)[0] != POOL_MAGIC:
        return None
    (region_shift,) = struct.unpack_from("<I", head, 40)
    base = _data_pages(fd, 1 << region_shift) * PAGE
    return max(os.fstat(fd).st_blocks * 512 - base, 0), base


def pool_fds(pid):
    """Paths of the memfds that a daemon holds, each pool once."""
    seen = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        try:
            if "/memfd:" in os.readlink(path):
                st = os.stat(path)
                if (st.st_dev, st.st_ino) not in seen:
                    seen.add((st.st_dev, st.st_ino))
                    yield path
        except OSError:
            continue


def pools(pid):
    """The shared memory of all pools of a daemon, asked of the kernel and not of the daemon."""
    n = subs = base = 0
    for path in pool_fds(pid):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            one = pool_memory(fd)
        finally:
            os.close(fd)
        if one:
            n, subs, base = n + 1, subs + one[0], base + one[1]
    return Pools(n, subs, base)


class Sampler(threading.Thread):
    """Samples pools() every 100 ms until closed; keeps the highest."""

    def __init__(self, pid, extra=lambda: 0, interval=0.1):
        super().__init__(daemon=True)
        self.pid, self.extra, self.interval = pid, extra, interval
        self.peak, self.peak_base, self.samples = 0, 0, 0
        self.quit = threading.Event()
        self.start()

    def run(self):
        while not self.quit.wait(self.interval):
            try:
                now = pools(self.pid)
            except OSError:
                continue
            self.peak = max(self.peak, now.subs + self.extra())
            self.peak_base = max(self.peak_base, now.base)
            self.samples += 1

    def close(self):
        self.quit.set()
        self.join()


def private_dirty(pid):
    """Bytes that a process made its own. Its pool is shared memory, and counted as that."""
    total, shared = 0, False
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            key = line.split(None, 1)[0]
            if not key.endswith(":"):
                shared = line.split()[1].endswith("s")
            elif key == "Private_Dirty:" and not shared:
                total += int(line.split()[1]) * 1024
    return total
