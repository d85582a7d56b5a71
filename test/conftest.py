# SPDX-License-Identifier: MIT
"""Fixtures of the end-to-end tests: a private daemon, users, programs, traces.

A test asks for `device`: a factory of daemons, each in a run directory of its own, under this uid or
another. All programs run from a copy of the build that every uid can reach. Whatever a test starts
is ended with it, by pid, and must then be gone; a daemon that crashed fails the test."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import ctf  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("VARVE_BUILD", ROOT / "build")).resolve()
FULL = os.environ.get("VARVE_SCALE") == "full"
SANITIZED = "asan" in BUILD.name
# Bounds on time are for a machine that is not busy otherwise: a busy one gets more.
SLOWNESS = max(1.0, 2 * os.getloadavg()[0] / os.cpu_count())
PATIENCE = 60 if SANITIZED else 20  # seconds until a wait is given up


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: more than ten seconds; not under sanitizers")
    config.addinivalue_line("markers", "nosan: cannot run under sanitizers")


def scale(name, full, ci):
    """What a case runs at: full under VARVE_SCALE=full, else ci. Printed, so that a log tells."""
    value = full if FULL else ci
    print(f"scale: {name} = {value} (full size: {full})")
    return value


def wait_for(what, condition, timeout=None, interval=0.02):
    """Waits until condition() is true and returns its value; fails the test after timeout."""
    end = time.monotonic() + (timeout or PATIENCE)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"waited in vain for {what}")
        time.sleep(interval)


def as_uid(uid, argv):
    """The command line that runs argv under uid."""
    if uid is None or uid == os.getuid():
        return [str(a) for a in argv]
    if os.getuid() != 0:
        pytest.skip(f"needs root to run programs under uid {uid}")
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--",
            *[str(a) for a in argv]]


class Process:
    """A program under test. Its output is collected; lines can be waited for."""

    def __init__(self, argv, env, uid=None, stdin=subprocess.DEVNULL, cwd=None):
        self.argv = as_uid(uid, argv)
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.popen = subprocess.Popen(self.argv, env=env, stdin=stdin, stdout=self.out,
                                      stderr=self.err, cwd=cwd)

    @property
    def pid(self):
        return self.popen.pid

    def _read(self, f):
        return os.pread(f.fileno(), 1 << 26, 0).decode(errors="replace")

    @property
    def stdout(self):
        return self._read(self.out)

    @property
    def stderr(self):
        return self._read(self.err)

    def wait_line(self, text, timeout=None):
        """Waits until a line with text stands on stdout."""
        def there():
            for line in self.stdout.splitlines():
                if text in line:
                    return line or True
            if self.popen.poll() is not None and text not in self.stdout:
                pytest.fail(f"{self.argv} ended with {self.popen.returncode} before it said "
                            f"{text!r}:\n{self.stdout}{self.stderr}")
            return None
        return wait_for(f"{text!r} of {self.argv}", there, timeout)

    def alive(self):
        return self.popen.poll() is None

    def kill(self, sig=signal.SIGKILL):
        if self.alive():
            self.popen.send_signal(sig)

    def wait(self, timeout=None):
        try:
            return self.popen.wait(timeout or PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            self.popen.wait()
            pytest.fail(f"{self.argv} did not end in time:\n{self.stdout}{self.stderr}")

    def end(self):
        """Lets a program that reads its stdin end by itself, or ends it."""
        if self.popen.stdin:
            self.popen.stdin.close()
            return self.wait()
        self.kill(signal.SIGTERM)
        return self.wait()


class Device:
    """One private daemon and what runs against it."""

    def __init__(self, stage, uid=None, args=()):
        if not stage.varved.exists():
            pytest.skip("varved is not built")
        self.stage, self.uid = stage, uid
        self.dir = Path(tempfile.mkdtemp(prefix="varve-test-"))
        self.rundir = self.dir / "run"
        self.rundir.mkdir()
        self.dir.chmod(0o755)
        self.rundir.chmod(0o755)
        self.logs = self.dir / "logs"  # any uid may write here
        self.logs.mkdir()
        self.logs.chmod(0o1777)
        if uid is not None:
            os.chown(self.rundir, uid, uid)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("VARVE")}
        self.env["VARVE_RUNDIR"] = str(self.rundir)
        self.processes = []
        self.daemon = None
        self.args = args
        self.launch()

    def launch(self):
        """Starts the daemon (again) and waits until it can be talked to."""
        self.daemon = Process([self.stage.varved, "--foreground", "--rundir", self.rundir,
                               *self.args], self.env, self.uid)
        def up():
            if not self.daemon.alive():
                pytest.fail(f"varved ended: {self.daemon.stdout}{self.daemon.stderr}")
            return self.varve("status", "--json", check=False).returncode == 0
        wait_for("varved to answer", up)

    def spawn(self, argv, uid=None, stdin=subprocess.DEVNULL, env=None, cwd=None):
        p = Process(argv, {**self.env, **(env or {})}, uid, stdin, cwd)
        self.processes.append(p)
        return p

    def writer(self, *args, uid=None, stdin=subprocess.PIPE, env=None):
        """Starts test/programs/writer; it ends when its stdin is closed."""
        # A busy machine decides how long attaching takes, and must not decide the test.
        env = {"VARVE_ATTACH_MS": "5000", **(env or {})}
        return self.spawn([self.stage.program("writer"), *args], uid, stdin, env)

    def varve(self, *args, uid=None, check=True, timeout=None, env=None, cwd=None, stdin=None):
        """Runs the CLI to its end."""
        argv = as_uid(uid, [self.stage.varve, *args])
        try:
            r = subprocess.run(argv, env={**self.env, **(env or {})}, text=True, errors="replace",
                               capture_output=True, timeout=timeout or 2 * PATIENCE, cwd=cwd,
                               stdin=stdin or subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{argv} hangs; varved said: {self.daemon.stderr}")
        if check and r.returncode != 0:
            pytest.fail(f"{argv}: exit {r.returncode}\n{r.stdout}{r.stderr}"
                        f"varved said: {self.daemon.stderr}")
        return r

    def start(self, name="s", budget="32M", window="60s", patterns=(), **kw):
        rules = [w for p in patterns for w in ("-e", p)]
        return self.varve("start", name, "--budget", budget, "--window", window, *rules, **kw)

    def status(self):
        return json.loads(self.varve("status", "--json").stdout)

    def session(self, name="s"):
        return next(s for s in self.status()["sessions"] if s["name"] == name)

    def process(self, pid):
        """The status row of a process, or None."""
        return next((p for p in self.status()["processes"] if p["pid"] == pid), None)

    def wait_dead(self, *pids):
        """Waits until the daemon has seen these processes end."""
        def seen():
            rows = {p["pid"]: p["alive"] for p in self.status()["processes"]}
            return not any(rows.get(pid) for pid in pids)
        wait_for(f"the daemon to see the end of {pids}", seen)

    def snapshot(self, name="s", *args, hostile=False, check=True, **kw):
        """Takes a snapshot and returns it, checked: see ctf.Trace. Without check, its folder."""
        out = self.dir / f"snap-{len(list(self.dir.glob('snap-*')))}"
        self.varve("snapshot", name, "-o", out, *args, **kw)
        return ctf.Trace(out, hostile) if check else out

    def close(self):
        for p in self.processes:
            p.kill()
            p.wait()
        code = self.daemon.popen.poll()
        if code is None:
            self.daemon.kill(signal.SIGTERM)
            code = self.daemon.wait()
        said = self.daemon.stderr
        shutil.rmtree(self.dir, ignore_errors=True)
        assert code == 0 and "Sanitizer" not in said and "runtime error" not in said, \
            f"varved ended with {code}:\n{said}"


class Stage:
    """A copy of the build's programs and libraries where every uid can run them."""

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="varve-stage-"))
        self.dir.chmod(0o755)
        for top in ("src", "test"):
            for path in (BUILD / top).rglob("*"):
                if path.suffix in (".p", ".a", ".o") or any(q.suffix == ".p" for q in path.parents):
                    continue
                if path.is_file() and (os.access(path, os.X_OK) or ".so" in path.name):
                    to = self.dir / path.relative_to(BUILD)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, to, follow_symlinks=False)
        self.varve = self.dir / "src/cli/varve"
        self.varved = self.dir / "src/daemon/varved"

    def program(self, name):
        path = self.dir / "test/programs" / name
        if not path.exists():
            pytest.skip(f"test/programs/{name} is not built")
        return path


@pytest.fixture(scope="session")
def stage():
    s = Stage()
    if not s.varve.exists():
        shutil.rmtree(s.dir)
        pytest.skip("varve is not built")
    yield s
    shutil.rmtree(s.dir)


@pytest.fixture
def devices(stage):
    """A factory: devices(uid=..., args=...) starts one more private daemon."""
    made = []
    def make(uid=None, args=()):
        made.append(Device(stage, uid, args))
        return made[-1]
    yield make
    errors = []
    for d in made:
        try:
            d.close()
        except AssertionError as e:
            errors.append(str(e))
    assert not errors, "\n".join(errors)


@pytest.fixture
def device(devices):
    """A private daemon under this uid."""
    return devices()
