# SPDX-License-Identifier: MIT
"""Building and installing: what a packager and a user's build meet."""

import os
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT, SANITIZED

CROSS_32 = """
[binaries]
c = ['gcc', '-m32']
cpp = ['g++', '-m32']
ar = 'ar'
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
[properties]
needs_exe_wrapper = true
"""

PROGRAM = """
#include <varve/varve.h>
VARVE_EVENT(hello, world, VARVE_INFO, (i32, n), (str, who));
int main(void)
{
	varve_hello_world(1, "you");
	return 0;
}
"""


def run(*argv, **kw):
    r = subprocess.run([str(a) for a in argv], text=True, capture_output=True, check=False, **kw)
    return r


def test_32_bit_is_refused_with_one_line(tmp_path):
    (tmp_path / "m32.ini").write_text(CROSS_32)
    r = run("meson", "setup", tmp_path / "b", "--cross-file", tmp_path / "m32.ini", cwd=ROOT)
    assert r.returncode != 0
    errors = [line for line in r.stdout.splitlines() if "ERROR" in line]
    assert len(errors) == 1 and "64-bit" in errors[0]


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """What `make install` of the build under test installs, under its prefix."""
    if SANITIZED:
        pytest.skip("what is installed has no sanitizers")
    root = tmp_path_factory.mktemp("install") / "root"
    r = run("make", "install", f"BUILD={BUILD}", "PREFIX=/usr/local", f"DESTDIR={root}", cwd=ROOT)
    assert r.returncode == 0, r.stdout + r.stderr
    return root / "usr/local"


def test_installed_files(installed):
    files = {str(p.relative_to(installed)) for p in installed.rglob("*") if not p.is_dir()}
    for name in ("bin/varve", "bin/varved", "include/varve/varve.h",
                 "lib/systemd/system/varved.service", "lib/tmpfiles.d/varve.conf",
                 "lib/sysusers.d/varve.conf"):
        assert name in files, files
    assert any(f.endswith("/pkgconfig/varve.pc") for f in files), files
    assert not any("test" in f for f in files), files
    unit = (installed / "lib/systemd/system/varved.service").read_text()
    assert "ExecStart=/usr/local/bin/varved --foreground" in unit and "Type=notify" in unit


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++"])
def test_a_users_program_builds_against_the_install(installed, tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (pc,) = installed.rglob("varve.pc")
    env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(installed.parent.parent),
           "PKG_CONFIG_LIBDIR": str(pc.parent)}
    flags = run("pkg-config", "--cflags", "--libs", "varve", env=env)
    assert flags.returncode == 0, flags
    name = "hello.cc" if compiler == "g++" else "hello.c"
    (tmp_path / name).write_text(PROGRAM)
    r = run(compiler, "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "hello", tmp_path / name,
            *flags.stdout.split())
    assert r.returncode == 0, r.stderr
    lib = next(p for p in installed.rglob("libvarve.so*")).parent
    env = {**os.environ, "LD_LIBRARY_PATH": str(lib)}
    assert run(tmp_path / "hello", env=env).returncode == 0
    # And with what was installed it is recorded.
    r = run(installed / "bin/varve", "record", "-o", tmp_path / "out", tmp_path / "hello", env=env)
    assert r.returncode == 0, r
    r = run("babeltrace2", tmp_path / "out")
    assert r.returncode == 0 and 'hello:world' in r.stdout and 'who = "you"' in r.stdout, r


def test_libvarve_needs_libc_alone():
    lib = next(iter(sorted((BUILD / "src/lib").glob("libvarve.so*"))), None)
    if lib is None:
        pytest.skip("libvarve is not built")
    if SANITIZED:
        pytest.skip("the sanitizer is one more library")
    needed = [line.split("[")[1].rstrip("]") for line in run("readelf", "-d", lib).stdout.splitlines()
              if "(NEEDED)" in line]
    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2"}, needed
