# SPDX-License-Identifier: MIT
"""--preload libc: unmodified programs become sources, and say and do exactly what they did before."""

import os
import shutil
import subprocess

import pytest

import ctf
from conftest import SANITIZED

pytestmark = pytest.mark.skipif(
    SANITIZED, reason="a preloaded library cannot bring the sanitizer along")

PYTHON = """
import subprocess, sys, threading
lines = []
t = threading.Thread(target=lambda: lines.append(open("/etc/hostname").read()))
t.start(); t.join()
print(subprocess.run(["sh", "-c", "echo child; exit 3"], capture_output=True))
import os
pid = os.fork()
if pid == 0:
    print("forked", flush=True)
    os._exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(lines))
sys.exit(11)
"""

NODE = """
const { spawnSync, execFileSync } = require("child_process");
const fs = require("fs");
fs.writeFileSync("n.txt", "x".repeat(100000));
console.log(fs.readFileSync("n.txt").length, spawnSync("sh", ["-c", "exit 4"]).status);
console.log(execFileSync("cat", ["n.txt"]).length);
Promise.all([1, 2, 3].map(i => fs.promises.readFile("n.txt"))).then(a => {
    console.log(a.length); process.exit(9); });
"""

PERL = """
open(my $f, ">", "p.txt") or die; print $f "line $_\n" for 1..1000; close $f;
my $n = () = `cat p.txt`; my $pid = fork; if (!$pid) { exec "sh", "-c", "exit 6" }
waitpid $pid, 0; print "$n ", $? >> 8, "\n"; exit 2;
"""

SQL = """create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
insert into t select i, hex(i * 7) from n; select count(*), sum(length(b)) from t;
create index x on t(b); pragma integrity_check;"""

C = '#include <stdio.h>\nint main(void) { puts("compiled"); return 7; }\n'

PROGRAMS = {
    "cat": ["cat", "/etc/passwd", "/no/such/file"],
    "python3": ["/usr/bin/python3", "-c", PYTHON],
    "git": ["sh", "-c", "git init -q g && cd g && echo a >a && git add a && "
            "git -c user.name=n -c user.email=e@x commit -q -m m --date='2020-01-01T00:00:00' && "
            "git gc -q && git log --format=%s && git fsck && git status --short --branch"],
    "gcc": ["sh", "-c", "gcc -O1 -o c c.c && ./c; echo $?; gcc missing.c"],
    "sqlite3": ["sqlite3", "s.db", SQL],
    "perl": ["perl", "-e", PERL],
    "node": ["node", "-e", NODE],
    "bash": ["bash", "-c", "echo a | tr a b | (read x; echo $x); f() { return 3; }; f; echo $?; "
             "x=$(seq 100 | wc -l); echo $x; sleep 0.01 & wait; trap 'echo bye' EXIT; "
             "kill -TERM $BASHPID"],
    "sh": ["sh", "-c", "ulimit -n 32; no-such-command; kill -SEGV $$"],
}


def run(argv, folder, env=None):
    """What a program says and how it ends, in a fresh folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "c.c").write_text(C)
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("VARVE")}, **(env or {})}
    r = subprocess.run([str(a) for a in argv], cwd=folder, env=env, capture_output=True, text=True,
                       timeout=60, check=False, stdin=subprocess.DEVNULL)
    return r


def said(text):
    """Without what differs from run to run."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("varve: recorded "))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_not_notice(stage, tmp_path, name):
    argv = PROGRAMS[name]
    if not shutil.which(argv[0]) or (name in ("git", "gcc") and not shutil.which(name)):
        pytest.skip(f"no {name} here")
    before = run(argv, tmp_path / "w")
    after = run([stage.varve, "record", "-o", tmp_path / "out", "--preload", "libc", "--", *argv],
                tmp_path / "w")
    expected = before.returncode if before.returncode >= 0 else 128 - before.returncode
    assert (after.returncode, said(after.stdout), said(after.stderr)) == \
        (expected, said(before.stdout), said(before.stderr))
    events = {e.name for e in ctf.Trace(tmp_path / "out").events()}
    assert "libc:malloc" in events, events


def test_what_is_recorded(stage, tmp_path):
    (tmp_path / "in").write_text("x" * 5000)
    r = run([stage.varve, "record", "-o", tmp_path / "out", "--preload", "libc", "-e", "libc:*",
             "-e", "!libc:free", "--", "sh", "-c", f"cat {tmp_path}/in >/dev/null; exit 3"],
            tmp_path / "w")
    assert r.returncode == 3, r
    events = list(ctf.Trace(tmp_path / "out").events())
    assert not [e for e in events if e.name == "libc:free"]
    (opened,) = [e for e in events if e.fields.get("path") == f"{tmp_path}/in"]
    assert opened.procname == "cat" and opened.fields["error"] == 0
    fd = opened.fields["result"]
    (read, end) = [e for e in events if e.name == "libc:read" and e.vpid == opened.vpid
                   and e.fields["fd"] == fd]
    assert (read.fields["result"], end.fields["result"]) == (5000, 0)
    assert 0 < read.fields["duration"] < 10**9
    # A shell uses fork or vfork.
    execs = [e for e in events if e.name in ("libc:exec", "libc:vfork_exec") and e.procname == "sh"]
    assert [e.fields["path"] for e in execs] == [shutil.which("cat")]
    assert [e.fields["status"] for e in events
            if e.name in ("libc:exit", "libc:_exit") and e.procname == "sh"] == [3]


def test_run_keeps_an_older_preload(device):
    device.start()
    r = device.varve("run", "--preload", "libc", "sh", "-c", "echo $LD_PRELOAD",
                     env={"LD_PRELOAD": "libm.so.6"})
    ours, theirs = r.stdout.strip().split(":")
    assert ours.endswith("/libvarve-preload-libc.so") and theirs == "libm.so.6"


def test_no_daemon_no_difference(stage, tmp_path):
    env = {"VARVE_RUNDIR": str(tmp_path / "nothing")}
    r = run([stage.varve, "run", "--preload", "libc", "--", "cat", "/etc/passwd"], tmp_path / "w", env)
    assert (r.returncode, r.stderr) == (0, "")
    with open("/etc/passwd", encoding="utf-8") as f:
        assert r.stdout == f.read()
