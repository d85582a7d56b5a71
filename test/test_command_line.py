# SPDX-License-Identifier: MIT
"""The contract of the command line: verbs, options, JSON, exit codes, and one clear line for what
is wrong."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import ctf
from conftest import SANITIZED, wait_for

REASONS = {"nobuf", "toobig", "retry", "norseq", "corrupt", "unattached"}
LEFT_OUT = {"bad_header", "bad_record", "bad_time", "raced"}
VERBS = ["run", "record", "start", "stop", "destroy", "status", "list", "enable", "disable",
         "snapshot", "view"]


def one_line(result, code, *words):
    """A refusal: this exit code, nothing on stdout, one line on stderr that has these words."""
    assert result.returncode == code, result
    assert result.stdout == "", result
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0], result
    for word in words:
        assert word.lower() in lines[0].lower(), result
    return lines[0]


@pytest.fixture
def bare(stage, tmp_path):
    """Runs the CLI where no daemon is."""
    def run(*args, **kw):
        env = {k: v for k, v in os.environ.items() if not k.startswith("VARVE")}
        env["VARVE_RUNDIR"] = str(tmp_path / "no-daemon-here")
        return subprocess.run([str(stage.varve), *map(str, args)], env=env, text=True, check=False,
                              capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
                              cwd=tmp_path, **kw)
    return run


# --- help, and wrong use --------------------------------------------------------------------------

def test_version(bare, stage):
    r = bare("--version")
    assert r.returncode == 0 and r.stdout.startswith("varve 0.") and r.stderr == ""
    r = subprocess.run([str(stage.varved), "--version"], text=True, capture_output=True, check=False)
    assert r.returncode == 0 and r.stdout.startswith("varved 0.")


def test_help(bare, stage):
    r = bare("--help")
    assert r.returncode == 0 and r.stderr == ""
    for verb in VERBS:
        assert f"\n  {verb}" in r.stdout or f" {verb} " in r.stdout, f"--help does not name {verb}"
    r = subprocess.run([str(stage.varved), "--help"], text=True, capture_output=True, check=False)
    assert r.returncode == 0 and "--rundir" in r.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb(bare, verb):
    r = bare(verb, "--help")
    assert r.returncode == 0 and r.stderr == "" and f"varve {verb}" in r.stdout


@pytest.mark.parametrize("args, words", [
    (["frobnicate"], ["frobnicate"]),
    (["--frobnicate"], ["--frobnicate"]),
    (["status", "--frobnicate"], ["--frobnicate"]),
    (["start"], ["NAME"]),
    (["start", "s", "--budget"], ["--budget"]),
    (["start", "s", "--budget", "lots"], ["lots"]),
    (["start", "s", "--window", "5 parsecs"], ["parsecs"]),
    (["start", "s", "--mode", "sideways"], ["sideways"]),
    (["start", "s", "-e", "nocolon"], ["nocolon"]),
    (["snapshot", "s"], ["-o"]),
    (["snapshot", "s", "-o", "out", "--last", "never"], ["never"]),
    (["list", "frogs"], ["frogs"]),
    (["record"], ["CMD"]),
    (["run"], ["CMD"]),
    (["enable", "s"], ["-e"]),
    (["view"], ["TRACE"]),
])
def test_wrong_use_exits_2(bare, args, words):
    one_line(bare(*args), 2, *words)


def test_no_verb(bare):
    r = bare()
    assert r.returncode == 2 and r.stdout == "" and "varve --help" in r.stderr


@pytest.mark.parametrize("args", [
    ["status"], ["status", "--json"], ["start", "s"], ["stop", "s"], ["destroy", "s"],
    ["list", "events"], ["enable", "s", "-e", "*:*"], ["snapshot", "s", "-o", "out"]])
def test_no_daemon(bare, tmp_path, args):
    one_line(bare(*args), 1, "no-daemon-here", "varved")
    assert list(tmp_path.iterdir()) == []


# --- sessions -------------------------------------------------------------------------------------

def test_session_life(device):
    device.start("flight", "16M", "10s", ["net:*", "!net:rx"])
    s = device.session("flight")
    assert s["mode"] == "flight" and s["active"] is True
    assert s["budget"] == 16 << 20 and s["window_ns"] == 10 * 10**9
    assert s["patterns"] == ["net:*", "!net:rx"]
    assert s["used"] <= s["budget"] and s["huge_used"] == 0 and s["store_used"] == 0
    assert s["events"] == 0 and set(s["lost"]) == REASONS
    device.varve("enable", "flight", "-e", "disk:*")
    device.varve("disable", "flight", "-e", "disk:slow")
    assert device.session("flight")["patterns"][2:] == ["disk:*", "!disk:slow"]
    device.varve("stop", "flight")
    assert device.session("flight")["active"] is False
    device.varve("destroy", "flight")
    assert device.status()["sessions"] == []


def test_defaults(device):
    device.varve("start", "s")
    s = device.session()
    assert (s["budget"], s["window_ns"]) == (32 << 20, 60 * 10**9)
    assert s["mode"] == "flight" and s["patterns"] == ["*:*"]


def test_unknown_session(device):
    for args in (["stop", "ghost"], ["destroy", "ghost"], ["status", "ghost"],
                 ["enable", "ghost", "-e", "*:*"], ["disable", "ghost", "-e", "*:*"],
                 ["snapshot", "ghost", "-o", device.dir / "out"]):
        one_line(device.varve(*args, check=False), 1, "ghost")
    assert not (device.dir / "out").exists()


def test_name_taken(device):
    device.start("twice")
    one_line(device.varve("start", "twice", check=False), 1, "twice")


def test_budget_below_the_minimum_names_it(device):
    line = one_line(device.varve("start", "s", "--budget", "4K", check=False), 2, "4K", "minimum")
    # What it names must work.
    size = next(w.strip(".,;:()") for w in line.split() if w.strip(".,;:()")[-1:] in "KMG"
                and w[:1].isdigit() and w.strip(".,;:()") != "4K")
    device.start("s", size)
    one_line(device.varve("start", "t", "--budget", "2G", check=False), 2, "1G")


def test_no_permission(devices):
    device = devices(uid=2001)
    one_line(device.varve("status", uid=2002, check=False), 1, "varve", "group")
    one_line(device.varve("start", "s", uid=2002, check=False), 1, "varve", "group")
    assert device.varve("start", "s", uid=2001).returncode == 0
    assert device.varve("status", uid=0).returncode == 0


def test_status_and_lists(device):
    device.start()
    w = device.writer("-n", "1000")
    w.wait_line("done")
    status = device.status()
    assert status["pid"] == device.daemon.pid and status["version"].startswith("0.")
    row = device.process(w.pid)
    assert row["uid"] == os.getuid() and row["name"] == "writer" and row["alive"] is True
    assert row["events"] == 1000 and row["used"] > 0 and set(row["lost"]) == REASONS
    assert device.session()["events"] == 1000 and device.session()["pools"] == 1

    events = json.loads(device.varve("list", "events", "--json").stdout)
    seq = next(e for e in events if e["name"] == "test:seq")
    assert seq["level"] == "info" and isinstance(seq["id"], int)
    assert seq["fields"] == [{"name": "seq", "type": "u64"}, {"name": "tid", "type": "u32"}]
    assert json.loads(device.varve("list", "sessions", "--json").stdout) == device.status()["sessions"]
    listed = json.loads(device.varve("list", "processes", "--json").stdout)
    assert [p["pid"] for p in listed] == [w.pid]
    # For people: a line each that names it.
    assert "test:seq" in device.varve("list", "events").stdout
    assert str(w.pid) in device.varve("list", "processes").stdout
    assert "32M" in device.varve("status").stdout


def test_rules_switch_events(device):
    device.start("s", patterns=["test:note"])
    w = device.writer("-n", "10", "-s", "hello world")
    w.wait_line("done")
    assert device.process(w.pid)["events"] == 10
    trace = device.snapshot()
    notes = list(trace.events())
    assert [e.fields for e in notes] == [{"seq": i, "text": "hello world"} for i in range(10)]
    assert {e.name for e in notes} == {"test:note"}
    # A rule changed while the program runs counts from its next event on.
    device.varve("disable", "s", "-e", "*:*")
    device.varve("enable", "s", "-e", "test:s*")
    w2 = device.writer("-n", "10", "-s", "x")
    w2.wait_line("done")
    trace = device.snapshot()
    assert [e.name for e in trace.events() if e.vpid == w2.pid] == ["test:seq"] * 10


# --- snapshots ------------------------------------------------------------------------------------

def test_snapshot_of_nothing(device):
    device.start()
    one_line(device.varve("snapshot", "s", "-o", device.dir / "out", check=False), 1, "nothing")
    assert not (device.dir / "out").exists()


def test_snapshot_output_must_be_new_or_empty(device):
    device.start()
    device.writer("-n", "10").wait_line("done")
    full = device.dir / "full"
    full.mkdir()
    (full / "mine").write_text("precious")
    one_line(device.varve("snapshot", "s", "-o", full, check=False), 1, str(full), "empty")
    assert [p.name for p in full.iterdir()] == ["mine"]
    one_line(device.varve("snapshot", "s", "-o", "/nowhere/at/all", check=False), 1, "/nowhere/at/all")
    file = device.dir / "file"
    file.write_text("x")
    one_line(device.varve("snapshot", "s", "-o", file, check=False), 1, str(file))
    assert file.read_text() == "x"
    empty = device.dir / "empty"
    empty.mkdir()
    device.varve("snapshot", "s", "-o", empty)
    assert ctf.Trace(empty).check_counts() == 10
    # A slash at the end: a new folder in it, named after session and time.
    shelf = device.dir / "shelf"
    shelf.mkdir()
    device.varve("snapshot", "s", "-o", f"{shelf}/")
    (made,) = shelf.iterdir()
    assert made.name.startswith("s-") and ctf.Trace(made).check_counts() == 10
    left = {p.name for p in device.dir.iterdir()}
    assert left == {"run", "logs", "full", "file", "empty", "shelf"}, f"left behind: {left}"


def test_snapshot_unwritable(devices):
    device = devices()
    device.start()
    device.writer("-n", "10").wait_line("done")
    # A folder that the daemon could write, but not who asks.
    one_line(device.varve("snapshot", "s", "-o", device.dir / "out", uid=2002, check=False), 1)
    device.dir.chmod(0o755)
    device2 = devices(uid=2001)
    device2.start()
    device2.writer("-n", "10").wait_line("done")
    one_line(device2.varve("snapshot", "s", "-o", device.dir / "out", uid=2001, check=False), 1,
             str(device.dir / "out"), "permission denied")
    assert not (device.dir / "out").exists()


@pytest.mark.parametrize("limit, words", [("-f 8", "File too large"),
                                          ("-n 5", "Too many open files")])
def test_snapshot_at_a_limit(device, tmp_path, limit, words):
    device.start()
    w = device.writer("-n", "5000", "-x")
    assert w.wait() == 0
    r = subprocess.run(["sh", "-c", f"ulimit {limit}; exec {device.stage.varve} snapshot s -o out"],
                       env=device.env, cwd=tmp_path, text=True, capture_output=True, timeout=60,
                       check=False)
    one_line(r, 1, words)
    assert list(tmp_path.iterdir()) == []


def test_report(device):
    device.start("flight", "8M", "20s")
    w = device.writer("-n", "500")
    w.wait_line("done")
    trace = device.snapshot("flight")
    r = trace.report
    assert r["session"] == "flight" and r["budget"] == 8 << 20 and r["window_ns"] == 20 * 10**9
    assert 0 < r["used"] <= r["budget"] and r["held_ns"] > 0 and r["taken_at"] > 10**18
    assert "clock" in r
    p = trace.of(w.pid)
    assert (p["uid"], p["name"], p["alive"]) == (os.getuid(), "writer", True)
    assert p["ppid"] == os.getpid() and p["exe"].endswith("/test/programs/writer")
    assert p["ended_at"] is None and p["end_status"] is None
    assert p["started_at"] <= p["first_event_at"] <= p["last_event_at"] <= r["taken_at"]
    assert p["complete_since"] <= p["first_event_at"]
    assert p["events"] == 500 and p["bytes"] >= 500 * 22
    assert p["overwritten"] == p["aged"] == p["consumed"] == 0
    assert set(p["lost"]) == REASONS and set(p["left_out"]) == LEFT_OUT
    assert not any(p["lost"].values()) and not any(p["left_out"].values())
    events = list(trace.events())
    assert [e.fields["seq"] for e in events] == list(range(500))
    # babeltrace2 and the daemon round ticks to ns each in its own way.
    assert abs(events[0].ts - p["first_event_at"]) < 1000
    assert abs(events[-1].ts - p["last_event_at"]) < 1000
    e = events[0]
    assert (e.vpid, e.uid, e.procname) == (w.pid, os.getuid(), "writer")
    assert e.vtid == e.fields["tid"] and e.cpu_id in range(os.cpu_count())
    assert isinstance(trace.processes, (list, dict)) and str(w.pid) in json.dumps(trace.processes)


def test_snapshot_after_stop(device):
    device.start()
    w = device.writer("-n", "100", "-x")
    assert w.wait() == 0
    device.varve("stop", "s")
    late = device.writer("-n", "100", "-x")
    assert late.wait() == 0
    for _ in range(2):
        trace = device.snapshot()
        assert trace.check_counts() == 100 and trace.of(w.pid)["events"] == 100
    device.varve("destroy", "s")
    one_line(device.varve("snapshot", "s", "-o", device.dir / "x", check=False), 1, "s")


def test_stop_keeps_the_window(device):
    """However long after the stop one comes: what counts is the time before it."""
    device.start(window="1s")
    w = device.writer("-n", "100")
    w.wait_line("done")
    device.varve("stop", "s")
    time.sleep(2.5)
    assert device.snapshot().check_counts() == 100
    assert device.snapshot("s", "--last", "1s").check_counts() == 100
    w.end()
    device.wait_dead(w.pid)
    trace = device.snapshot()
    assert trace.check_counts() == 100 and trace.report["held_ns"] <= 10**9


def test_last(device):
    device.start()
    w = device.writer("-r", "50")
    w.wait_line("ready")
    wait_for("events of three seconds", lambda: device.process(w.pid)["events"] >= 150)
    trace = device.snapshot("s", "--last", "1s")
    events = list(trace.events())
    assert events and events[-1].ts - events[0].ts <= 1.2 * 10**9
    assert trace.report["taken_at"] - events[0].ts <= 1.2 * 10**9


# --- view -----------------------------------------------------------------------------------------

def test_view(device):
    device.start()
    device.writer("-n", "10").wait_line("done")
    trace = device.snapshot()
    r = device.varve("view", trace.path)
    assert len(r.stdout.splitlines()) == 10 and "test:seq" in r.stdout and r.stderr == ""


def test_view_no_trace(bare, tmp_path):
    one_line(bare("view", tmp_path / "missing"), 1, "missing")
    (tmp_path / "empty").mkdir()
    one_line(bare("view", tmp_path / "empty"), 1, "empty", "trace")
    (tmp_path / "text").write_text("hello")
    one_line(bare("view", tmp_path / "text"), 1, "text", "trace")


# --- run and record -------------------------------------------------------------------------------

def test_run(device):
    device.start()
    r = device.varve("run", "--", device.stage.program("writer"), "-n", "10", "-x")
    assert r.stdout == "ready\ndone\n"
    assert device.snapshot().check_counts() == 10


def test_run_exit_status(bare):
    assert bare("run", "sh", "-c", "exit 7").returncode == 7
    one_line(bare("run", "no-such-program"), 127, "no-such-program")
    assert bare("run", "sh", "-c", "kill -9 $$").returncode in (137, -9)


def test_record(bare, stage, tmp_path):
    r = bare("record", "-o", "out", "--", stage.program("writer"), "-n", "1000", "-x")
    assert r.returncode == 0, r
    assert r.stdout == "ready\ndone\n"
    assert ctf.Trace(tmp_path / "out").check_counts() == 1000
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_record_names_its_output(bare, stage, tmp_path):
    r = bare("record", stage.program("writer"), "-n", "10", "-x")
    assert r.returncode == 0, r
    (out,) = tmp_path.iterdir()
    assert out.name.startswith("varve-writer-") and out.name in r.stderr
    assert ctf.Trace(out).check_counts() == 10


def test_record_of_nothing(bare, tmp_path):
    r = bare("record", "-o", "out", "true")
    assert r.returncode == 0, r
    assert "recorded nothing" in r.stderr and "--preload libc" in r.stderr
    assert ctf.Trace(tmp_path / "out").check_counts() == 0


def test_record_exit_status(bare, stage, tmp_path):
    assert bare("record", "-o", "a", "sh", "-c", "exit 7").returncode == 7
    writer = stage.program("writer")
    r = bare("record", "-o", "b", "sh", "-c", f"{writer} -n 10 -x; kill -SEGV $$")
    assert r.returncode == 128 + 11
    assert ctf.Trace(tmp_path / "b").check_counts() == 10
    one_line(bare("record", "-o", "c", "no-such-program"), 127, "no-such-program")
    assert not (tmp_path / "c").exists()
    (tmp_path / "script").write_text("#!/bin/sh\n")
    one_line(bare("record", "-o", "c", "./script"), 126, "script", "permission denied")
    assert not (tmp_path / "c").exists()


def test_record_options(bare, stage, tmp_path):
    r = bare("record", "-o", "out", "--budget", "8M", "--window", "5s", "-e", "test:note",
             stage.program("writer"), "-n", "10", "-s", "hi", "-x")
    assert r.returncode == 0, r
    trace = ctf.Trace(tmp_path / "out")
    assert {e.name for e in trace.events()} == {"test:note"}
    assert trace.report["budget"] == 8 << 20 and trace.report["window_ns"] == 5 * 10**9
    one_line(bare("record", "-o", "out", "true"), 1, "out")
    one_line(bare("record", "-o", "two", "--budget", "4K", "true"), 2, "4K")
    one_line(bare("record", "-o", "/nowhere/at/all", "true"), 1, "/nowhere/at/all")
    assert {p.name for p in tmp_path.iterdir()} == {"out"}


def test_record_leaves_nothing_running(bare, stage, tmp_path):
    before = set(Path(tempfile.gettempdir()).glob("varve*"))
    r = bare("record", "-o", "out", "sh", "-c", 'echo "$VARVE_RUNDIR"')
    rundir = r.stdout.strip()
    assert rundir and not Path(rundir).exists()
    assert set(Path(tempfile.gettempdir()).glob("varve*")) <= before
    assert ctf.Trace(tmp_path / "out").path.exists()


@pytest.mark.nosan  # the sanitizer's library would have to come before the preloaded one
def test_record_an_unmodified_program(bare, tmp_path):
    if SANITIZED:
        pytest.skip("a preloaded library cannot bring the sanitizer along")
    r = bare("record", "-o", "out", "--preload", "libc", "--", "/bin/cat", "/etc/hostname")
    assert r.returncode == 0, r
    names = {e.name for e in ctf.Trace(tmp_path / "out").events()}
    assert any("open" in n for n in names) and any("read" in n for n in names), names
    one_line(bare("record", "-o", "two", "--preload", "libfrog", "true"), 2, "libfrog")


# --- varved ---------------------------------------------------------------------------------------

def test_varved_wrong_use(stage, tmp_path):
    def varved(*args):
        return subprocess.run([str(stage.varved), *map(str, args)], text=True, capture_output=True,
                              timeout=60, check=False, stdin=subprocess.DEVNULL)
    one_line(varved("--frobnicate"), 2, "--frobnicate")
    one_line(varved("--rundir"), 2, "--rundir")
    one_line(varved("--foreground", "--rundir", "/nowhere/at/all"), 1, "/nowhere/at/all")


def test_second_daemon_is_refused(device):
    r = subprocess.run([str(device.stage.varved), "--foreground", "--rundir", str(device.rundir)],
                       text=True, capture_output=True, timeout=60, check=False)
    one_line(r, 1, str(device.rundir))
    assert device.varve("status").returncode == 0


def test_stale_socket_is_no_daemon(device):
    device.daemon.kill(9)
    device.daemon.wait()
    one_line(device.varve("status", check=False), 1, str(device.rundir))
    device.launch()
    assert device.varve("status").returncode == 0
