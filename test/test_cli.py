# SPDX-License-Identifier: MIT
"""The command line where things go wrong on the way: signals, daemons that break off or talk
rubbish, terminals, groups. What it does when all goes well is in test_command_line.py."""

import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

import ctf
from conftest import Process, wait_for

PLAN, FILE, DATA, END, ERROR = range(1, 6)


def frame(kind, file=0, body=b"", offset=0):
    return struct.pack("=IIIIQ", 0x6D724656, kind, file, len(body), offset) + body


class FakeDaemon:
    """Listens where a daemon would, reads a request, sends what it is told to, and closes."""

    def __init__(self, rundir, *pieces, pause=0.0):
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(rundir / "ctl.sock"))
        self.server.listen()
        self.pieces, self.pause, self.request = pieces, pause, b""
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        conn, _ = self.server.accept()
        with conn:
            while not self.request.endswith(b"\n"):
                self.request += conn.recv(65536)
            try:
                for p in self.pieces:
                    conn.sendall(p)
                    time.sleep(self.pause)
            except BrokenPipeError:
                pass

    def join(self):
        self.thread.join(timeout=20)
        assert not self.thread.is_alive()
        self.server.close()


ANSWER = b'{"ok": true, "session": "s", "taken_at": 1700000000000000000}\n'
WHOLE = [ANSWER, frame(PLAN, 1, offset=4), frame(FILE, 0, b"report.json", offset=4),
         frame(DATA, 0, b"true"), frame(END, 0, b'{"events": 7}')]


@pytest.fixture
def fake(stage, tmp_path):
    """fake(pieces, args...) runs the CLI against a daemon that says the pieces."""
    def run(pieces, *args):
        rundir = tmp_path / "run"
        rundir.mkdir()
        daemon = FakeDaemon(rundir, *pieces)
        r = subprocess.run([stage.varve, *map(str, args)], cwd=tmp_path, timeout=60, text=True,
                           env={**os.environ, "VARVE_RUNDIR": str(rundir)}, capture_output=True,
                           check=False)
        daemon.join()
        (rundir / "ctl.sock").unlink()
        rundir.rmdir()
        r.request = json.loads(daemon.request)
        return r
    return run


def one_line(r, code, *words):
    assert (r.returncode, r.stdout) == (code, ""), r
    assert len(r.stderr.splitlines()) == 1 and all(w in r.stderr for w in words), r


# --- requests, and answers of all sorts -----------------------------------------------------------

@pytest.mark.parametrize("args, request_", [
    (["start", "s", "--budget", "1M", "--window", "2m", "-e", "a:*", "-e", "!a:b"],
     {"verb": "start", "session": "s", "budget": 1 << 20, "window_ns": 120 * 10**9,
      "patterns": ["a:*", "!a:b"]}),
    (["start", "s"], {"verb": "start", "session": "s"}),
    (["stop", "s"], {"verb": "stop", "session": "s"}),
    (["destroy", "s"], {"verb": "destroy", "session": "s"}),
    (["enable", "s", "-e", "a:b"], {"verb": "enable", "session": "s", "patterns": ["a:b"]}),
    (["disable", "-e", "a:b", "s"], {"verb": "disable", "session": "s", "patterns": ["a:b"]}),
])
def test_requests(fake, args, request_):
    r = fake([b'{"ok": true}\n'], *args)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    assert r.request == request_


@pytest.mark.parametrize("answer, code, words", [
    ([b'{"ok": false, "error": "no budget", "exit": 1}\n'], 1, ["no budget"]),
    ([b'{"ok": false, "error": "wrong", "exit": 2}\n'], 2, ["wrong"]),
    ([b'{"ok": false, "error": "a\\u001b[2J\\nb", "exit": 77}\n'], 1, ["a?[2J?b"]),
    ([b'{"ok": false}\n'], 1, ["failed"]),
    ([b"hello\n"], 1, ["rubbish"]),
    ([b"[]\n"], 1, ["rubbish"]),
    ([b'{"ok": tr'], 1, ["closed"]),
    ([], 1, ["closed"]),
])
def test_answers(fake, answer, code, words):
    one_line(fake(answer, "stop", "s"), code, *words)


def test_answer_of_other_shape_is_no_crash(fake):
    strange = {"ok": True, "version": 3, "sessions": [1, {"name": None, "lost": []}, {}],
               "processes": {"a": 1}}
    r = fake([json.dumps(strange).encode() + b"\n"], "status")
    assert r.returncode == 0 and r.stderr == ""


def test_names_cannot_steer_the_terminal(fake):
    row = {"pid": 1, "uid": 0, "name": "\x1b]0;x\x07\u0085é", "alive": True}
    r = fake([json.dumps({"ok": True, "list": [row]}).encode() + b"\n"], "list", "processes")
    assert "?]0;x???é" in r.stdout and "\x1b" not in r.stdout


# --- snapshots that break off ---------------------------------------------------------------------

def test_fake_snapshot_is_taken(fake, tmp_path):
    r = fake(WHOLE, "snapshot", "-o", "out", "--last", "5s")
    assert r.request == {"verb": "snapshot", "last_ns": 5 * 10**9}
    assert (r.returncode, r.stdout, r.stderr) == (0, "./out: 7 events\n", "")
    assert (tmp_path / "out/report.json").read_text() == "true"


@pytest.mark.parametrize("name", ["../../up", ".hidden", None, 7])
def test_daemon_cannot_name_other_places(fake, tmp_path, name):
    answer = json.dumps({"ok": True, "session": name, "taken_at": 10**18}).encode() + b"\n"
    (tmp_path / "shelf").mkdir()
    assert fake([answer, *WHOLE[1:]], "snapshot", "-o", "shelf/").returncode == 0
    (made,) = (tmp_path / "shelf").iterdir()
    assert made.name.startswith("snapshot-2001")
    assert [p.name for p in tmp_path.iterdir()] == ["shelf"]


@pytest.mark.parametrize("n", range(1, len(WHOLE)))
def test_snapshot_that_breaks_off(fake, tmp_path, n):
    one_line(fake(WHOLE[:n], "snapshot", "-o", "out"), 1, "ended before")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad, word", [
    (frame(ERROR, 0, b"no memory left"), "no memory left"),
    (frame(FILE, 1, b"../../etc/x"), "rubbish"),
    (frame(FILE, 1, b"ctf/../x"), "rubbish"),
    (frame(DATA, 0, b"toolong"), "rubbish"),
    (frame(DATA, 9, b"x"), "rubbish"),
    (b"x" * 24, "rubbish"),
])
def test_snapshot_of_rubbish(fake, tmp_path, bad, word):
    one_line(fake([*WHOLE[:3], bad], "snapshot", "-o", "out"), 1, word)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_snapshot_leaves_nothing(stage, tmp_path, sig):
    (tmp_path / "run").mkdir()
    daemon = FakeDaemon(tmp_path / "run", *WHOLE, pause=1.5)
    p = Process([stage.varve, "snapshot", "-o", tmp_path / "out"],
                {**os.environ, "VARVE_RUNDIR": str(tmp_path / "run")})
    wait_for("the first file", lambda: list(tmp_path.glob(".varve-*/report.json")))
    p.kill(sig)
    assert p.wait() == -sig
    daemon.join()
    assert [q.name for q in tmp_path.iterdir()] == ["run"]


def test_progress_on_a_terminal(stage, tmp_path):
    (tmp_path / "run").mkdir()
    part = [frame(DATA, 0, b"x" * 1000, offset=i * 1000) for i in range(8)]
    daemon = FakeDaemon(tmp_path / "run", ANSWER, frame(PLAN, 1, offset=8000),
                        frame(FILE, 0, b"report.json", offset=8000), *part,
                        frame(END, 0, b'{"events": 1}'), pause=0.2)
    master, slave = pty.openpty()
    p = Process([stage.varve, "snapshot", "-o", tmp_path / "out"],
                {**os.environ, "VARVE_RUNDIR": str(tmp_path / "run")})
    assert p.wait() == 0 and p.stderr == ""  # not on what is no terminal
    daemon.join()
    (tmp_path / "run/ctl.sock").unlink()
    daemon = FakeDaemon(tmp_path / "run", ANSWER, frame(PLAN, 1, offset=8000),
                        frame(FILE, 0, b"report.json", offset=8000), *part,
                        frame(END, 0, b'{"events": 1}'), pause=0.2)
    subprocess.run([stage.varve, "snapshot", "-o", tmp_path / "out2"], stderr=slave, timeout=60,
                   env={**os.environ, "VARVE_RUNDIR": str(tmp_path / "run")}, check=True)
    daemon.join()
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert re.search(r"\r\x1b\[Kreceiving: .* of 7\.8K, \d+ %", shown)
    assert shown.endswith("\r\x1b[K")


# --- record and signals ---------------------------------------------------------------------------

def record(stage, tmp_path, script):
    """Starts record of a shell script that says "ready"; returns it and the private daemon's pid."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("VARVE")}
    p = Process([stage.varve, "record", "-o", tmp_path / "out", "sh", "-c",
                 f'echo "rundir $VARVE_RUNDIR"; {script}'], env)
    rundir = Path(p.wait_line("rundir").split()[1])
    daemon = int((rundir / "lock").read_text())
    assert (rundir / "ctl.sock").exists()
    return p, rundir, daemon


def gone(pid):
    """Whether the process has ended; a zombie that nobody waits for has, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_record_passes_signals_on(stage, tmp_path):
    p, rundir, daemon = record(stage, tmp_path, "trap 'echo got; exit 3' TERM; echo ready; "
                               "while :; do sleep 0.05; done")
    p.wait_line("ready")
    p.kill(signal.SIGTERM)
    assert p.wait() == 3 and "got" in p.stdout
    assert ctf.Trace(tmp_path / "out").check_counts() == 0
    assert not rundir.exists() and gone(daemon)


def test_record_killed_takes_its_daemon_along(stage, tmp_path):
    p, rundir, daemon = record(stage, tmp_path, "echo ready; exec sleep 30")
    p.wait_line("ready")
    child = int(Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()[-1])
    try:
        p.kill(signal.SIGKILL)
        assert p.wait() == -9
        wait_for("the private daemon to end", lambda: gone(daemon))
        assert not (tmp_path / "out").exists()
    finally:
        os.kill(child, signal.SIGKILL)
        subprocess.run(["rm", "-r", str(rundir)], check=True)


def test_record_tells_that_its_daemon_was_killed(stage, tmp_path):
    p, rundir, daemon = record(stage, tmp_path, "trap 'exit 3' TERM; echo ready; "
                               "while :; do sleep 0.05; done")
    p.wait_line("ready")
    os.kill(daemon, signal.SIGKILL)
    p.kill(signal.SIGTERM)
    assert p.wait() == 3 and p.stderr.count("\n") == 1 and "varved was killed" in p.stderr
    assert not rundir.exists() and not (tmp_path / "out").exists()


def test_record_ignores_what_nohup_ignores(stage, tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("VARVE")}
    r = subprocess.run(["sh", "-c", f"trap '' HUP; exec {stage.varve} record -o {tmp_path}/out "
                        "sh -c 'kill -HUP $$; kill -HUP $PPID; echo alive'"], env=env, text=True,
                       capture_output=True, timeout=60, check=False)
    assert (r.returncode, r.stdout) == (0, "alive\n"), r


def test_record_ctrl_c_is_the_commands(stage, tmp_path):
    """^C on a terminal goes to all of the foreground group: the command ends as it likes, and the
    recording is there."""
    master, slave = pty.openpty()
    env = {k: v for k, v in os.environ.items() if not k.startswith("VARVE")}
    with subprocess.Popen(["setsid", "--ctty", "--wait", str(stage.varve), "record", "-o",
                           str(tmp_path / "out"), "sh", "-c",
                           "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done"],
                          stdin=slave, stdout=slave, stderr=slave, env=env) as p:
        os.close(slave)
        shown = b""
        while b"ready" not in shown:
            shown += os.read(master, 4096)
        os.write(master, b"\x03")
        assert p.wait(timeout=20) == 4
    try:
        shown += os.read(master, 65536)
    except OSError:
        pass
    os.close(master)
    assert shown.count(b"caught") == 1
    assert ctf.Trace(tmp_path / "out").check_counts() == 0


def test_record_finds_no_daemon(stage, tmp_path):
    env = {**os.environ, "VARVE_VARVED": "/bin/false"}
    r = subprocess.run([stage.varve, "record", "-o", tmp_path / "out", "true"], env=env, text=True,
                       capture_output=True, timeout=60, check=False)
    one_line(r, 1, "private varved did not start")
    assert list(tmp_path.iterdir()) == []


# --- who may --------------------------------------------------------------------------------------

def test_group_varve_may(stage, tmp_path):
    """A daemon whose /etc/group knows the group; users with and without it."""
    if os.getuid() != 0:
        pytest.skip("needs root for users of its own")
    groups = tmp_path / "group"
    groups.write_text("root:x:0:\nvarve:x:7777:\n")
    rundir = stage.dir / "group-run"
    rundir.mkdir()
    os.chown(rundir, 2001, 2001)
    env = {**os.environ, "VARVE_RUNDIR": str(rundir)}
    daemon = Process(["unshare", "-m", "sh", "-c", f"mount --bind {groups} /etc/group && exec setpriv "
                      f"--reuid=2001 --regid=2001 --clear-groups -- {stage.varved} --foreground "
                      f"--rundir {rundir}"], env)

    def status(*who):
        return subprocess.run(["setpriv", *who, "--", stage.varve, "status"], env=env, text=True,
                              capture_output=True, timeout=60, check=False)
    try:
        wait_for("the daemon", lambda: not daemon.alive() or (rundir / "ctl.sock").exists())
        if not daemon.alive():
            pytest.skip(f"no mount namespace here: {daemon.stderr}")
        assert status("--reuid=2002", "--regid=2002", "--groups=5,7777").returncode == 0
        assert status("--reuid=2002", "--regid=7777", "--clear-groups").returncode == 0
        one_line(status("--reuid=2002", "--regid=2002", "--clear-groups"), 1, "group 'varve'")
        one_line(status("--reuid=2002", "--regid=2002", "--groups=5,7778"), 1, "group 'varve'")
    finally:
        daemon.end()
