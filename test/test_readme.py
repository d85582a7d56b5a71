# SPDX-License-Identifier: MIT
"""What the README tells people to type, typed."""

import os
import re
import subprocess

import pytest

from conftest import BUILD, ROOT, SANITIZED


def blocks(heading, language):
    text = (ROOT / "README.md").read_text()
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.S)


@pytest.mark.nosan
def test_first_trace_in_five_commands(stage, tmp_path):
    if SANITIZED or BUILD != ROOT / "build":
        pytest.skip("the commands name build/")
    commands = blocks("A first trace in five commands", "sh")[0].splitlines()
    assert len(commands) == 5
    # In a folder of its own for the output, with the tree's Makefile.
    script = "\n".join(commands).replace("-o trace", f"-o {tmp_path}/trace")
    script = script.replace("view trace", f"view {tmp_path}/trace")
    r = subprocess.run(["sh", "-eu", "-c", script], cwd=ROOT, text=True, capture_output=True,
                       timeout=300, check=False, env={**os.environ, "VARVE_RUNDIR": "/nonexistent"})
    assert r.returncode == 0, r
    assert "/etc/hostname" in r.stdout and "open" in r.stdout, r.stdout[-3000:]


def test_the_device_commands(device, tmp_path):
    """The second block, at a daemon of this test's own."""
    commands = blocks("A first trace in five commands", "sh")[1].splitlines()
    script = "\n".join(commands[1:]).replace("my-program", "true")
    script = script.replace("-o incident", f"-o {tmp_path}/incident")
    if SANITIZED:
        script = script.replace("--preload libc -- true", f"-- {device.stage.program('start')}")
    env = {**device.env, "PATH": f"{device.stage.varve.parent}:{os.environ['PATH']}"}
    r = subprocess.run(["sh", "-eu", "-c", script], text=True, capture_output=True, timeout=60,
                       check=False, env=env)
    assert r.returncode == 0, r
    assert (tmp_path / "incident/report.json").exists()
