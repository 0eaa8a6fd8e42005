"""The other kind of user: when the tests run as root, the sandbox also has to hold for somebody without any right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from redqueen.jail import Sandbox

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65_534
SCRIPT = """
import json, os, sys
from redqueen.jail import GAME, Job, Limits, Sandbox
from tests.jail.reach import reach
programs = sys.argv[1:]
with Sandbox(GAME.with_limits(Limits(cpu_s=0.3, wall_s=120.0, memory_mb=64)), workers=1) as sandbox:
    outcomes = sandbox.run([Job(program if "def f" in program else reach(program), ("",)) for program in programs])
    checked = sandbox.run([Job("def f():\\n    return 1", ("",), validate=True)])[0].status
    print(json.dumps([os.getuid(), sandbox.tier, checked, [outcome.status for outcome in outcomes]]))
"""
PROGRAMS = {
    "def f():\n    return 1": "ok",
    "return os.open('/etc/passwd', 0)": "error",
    "return os.kill(os.getppid(), 9)": "error",
    "return os.fork()": "error",
    "must(libc.socket(2, 1, 0))\nreturn 1": "error",
    "return [0] * 10 ** 10": "memory",
    "while True:\n    pass": "timeout",
}


def interpreter() -> str:
    """A Python that an ordinary user may run: this one may lie in root's home. The sandbox needs nothing installed."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = [
            python,
            "-c",
            "import sys, tests.jail.reach, redqueen.jail; sys.exit(sys.version_info < (3, 11))",
        ]
        try:
            done = subprocess.run(check, user=NOBODY, group=NOBODY, extra_groups=[], cwd=ROOT, capture_output=True)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    pytest.skip("no Python here that an ordinary user may run")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="all other tests do this already")
@pytest.mark.integration
def test_an_ordinary_user_gets_the_same_tier_and_the_same_verdicts(sandbox: Sandbox) -> None:
    done = subprocess.run(
        [interpreter(), "-c", SCRIPT, *PROGRAMS],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd=ROOT,
        env={},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    user, tier, checked, statuses = json.loads(done.stdout)
    assert (user, tier, checked) == (NOBODY, sandbox.tier, "ok")
    assert dict(zip(PROGRAMS, statuses, strict=True)) == PROGRAMS
