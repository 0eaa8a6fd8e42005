"""What a program finds around it: plain Python's answers, and nothing of this machine, this run or another job."""

from __future__ import annotations

import encodings
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from redqueen.jail import GAME, Job, Outcome, Sandbox, parse_literal, probe
from tests.jail.conftest import AMPLE, runner
from tests.jail.processes import zygotes
from tests.jail.reach import reach

Run = Callable[..., Outcome]
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

ENCODINGS = r"""
def attempt(function):
    try:
        return str(function())[:60]
    except Exception as error:
        return type(error).__name__ + str(error)[:60]
def f(*names):
    return [(name, attempt(lambda: 'a\u20ac\u3042'.encode(name, 'replace')), attempt(lambda: '13:45'.encode(name)),
             attempt(lambda: b'1\xc3\xa4\xff'.decode(name, 'replace'))) for name in names]
"""


def test_every_encoding_gives_what_plain_python_gives(run: Run) -> None:
    names = [*sorted(module.name for module in pkgutil.iter_modules(encodings.__path__)), "nonsense", "UTF8", "l1"]
    inputs = [", ".join(map(repr, names[start : start + 10])) for start in range(0, len(names), 10)]
    outcome = run(ENCODINGS, *inputs, validate=True)
    assert outcome.status == "ok", outcome
    there = [item for text in outcome.outputs for item in parse_literal(text)]
    plain: dict[str, Any] = {}
    exec(ENCODINGS, plain)
    assert there == plain["f"](*names)


PLAIN = {
    "return (2 ** 30000 // 3 ** 9000) % 1000003": "43794",
    "return int('7' * 4000) // int('3' * 1500) % 10 ** 9": None,
    "return '\\\\N{DIGIT ONE}'.encode().decode('unicode_escape')": "'1'",
    "try:\n        return 'x'.encode('shift_jis')\n    except LookupError:\n        return 'no'": "b'x'",
    "try:\n        return 'x'.encode('nonsense')\n    except LookupError as e:\n        return str(e)": (
        "'unknown encoding: nonsense'"
    ),
}


@pytest.mark.parametrize(("body", "literal"), PLAIN.items())
def test_what_the_interpreter_loads_late_is_there(run: Run, body: str, literal: str | None) -> None:
    outcome = run(f"def f():\n    {body}", validate=True)
    assert outcome.status == "ok", outcome
    assert literal is None or outcome.outputs == (literal,)


BLANK = """
seen = [sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.version, sys.path, sys.argv, sys.orig_argv]
seen += [module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)]
seen += [module.__spec__.origin for module in list(sys.modules.values()) if getattr(module, "__spec__", None)]
seen += [each.__code__.co_filename for each in gc.get_objects() if type(each).__name__ == "function"]
seen += [list(getattr(module, "__path__", [])) for module in list(sys.modules.values())]
return sorted({str(each) for each in seen})
"""


def test_no_install_path_and_no_version_is_left(run: Run) -> None:
    outcome = run(reach(BLANK))
    assert outcome.status == "ok", outcome
    found = parse_literal(outcome.outputs[0])
    assert [text for text in found if "/" in text or "3.1" in text] == []


def test_the_jails_own_modules_show_no_path_either(run: Run) -> None:
    # The program's module has taken the place of one of them.
    body = "frame = sys._getframe()\nseen = []\nwhile frame:\n    seen.append(frame.f_globals.get('__file__'))\n"
    outcome = run(reach(body + "    frame = frame.f_back\nreturn seen"))
    assert outcome.status == "ok", outcome
    assert set(parse_literal(outcome.outputs[0])) <= {None, ""}


@linux
def test_zygotes_go_first_when_memory_runs_out_and_show_no_number(sandbox: Sandbox) -> None:
    sandbox.run([Job("def f():\n    return list({'a'})", ("",), validate=True)])
    assert len(zygotes(sandbox)) == 7
    for zygote in zygotes(sandbox):
        entry = Path(f"/proc/{zygote.process.pid}")
        assert entry.joinpath("oom_score_adj").read_text() == "1000\n"
        assert entry.joinpath("cmdline").read_bytes().strip(b"\0") == b""


ADDRESSES = """
def f():
    kinds = [object, list, dict, lambda: 0.5 + len('a'), lambda: 10 ** 6 + len('a'), lambda: (len, len)]
    kinds += [lambda: (lambda: 0)]
    kinds += [lambda: memoryview(b''), lambda: bytes(700), lambda: bytes(6000), lambda: bytes(100_000)]
    kinds += [lambda size=size: bytes(size) for size in range(30, 470, 16)]
    found = []
    for make in kinds:
        objects = [make() for _ in range(4)]
        found.append([id(each) for each in objects])
    return found
"""
BEFORE = [
    Job("def f(x):\n    return x", ("1",)),
    Job("def f(x):\n    return 1 // 0", ("1",)),
    Job("def f(x):\n    return 'a' * 15_000", ("1",) * 4),
    Job("def f(x):\n    return sum(range(x))", ("1000000",)),
    Job("def f(x):\n    return len(x)", (f"'{'a' * 15_000}'",) * 9),
    Job("def f(x):\n    return 2", ("1",), expected=(b"x",)),
]


def test_addresses_do_not_depend_on_earlier_jobs() -> None:
    # A sandbox of its own: after the hostile jobs of other tests addresses were seen to differ (docs/SECURITY.md).
    with Sandbox(GAME.with_limits(AMPLE), workers=1) as sandbox:
        run = runner(sandbox)
        outcomes = [run(ADDRESSES)]
        for job in BEFORE:
            sandbox.run([job])
            outcomes.append(run(ADDRESSES))
    assert outcomes[0].status == "ok", outcomes[0]
    assert {outcome.outputs for outcome in outcomes} == {outcomes[0].outputs}


def test_addresses_do_not_depend_on_the_start() -> None:
    if not next(found.ok for found in probe()[1] if found.name == "fixed layout"):
        pytest.skip("addresses are random here")
    starts: Counter[tuple[str, ...]] = Counter()
    for _ in range(3):
        with Sandbox(GAME.with_limits(AMPLE), workers=1) as sandbox:
            outcome = runner(sandbox)(ADDRESSES)
        assert outcome.status == "ok", outcome
        starts[outcome.outputs] += 1
    # Not all three: one start in thousands was seen to differ, and nobody knows why (docs/SECURITY.md).
    assert starts.most_common(1)[0][1] >= 2


def test_no_pointer_is_taken_for_the_number_of_a_process(
    child_module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    upper_half = threading.get_ident() >> 32
    monkeypatch.setattr(os, "getpid", lambda: upper_half)
    assert child_module("steady").process_numbers() == []


ZONE = """
import functools
time = functools.__builtins__["__import__"]("time")
def f():
    return time.tzname, time.timezone, time.localtime(0)[:6]
"""


def test_no_program_finds_the_machines_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    with Sandbox(GAME.with_limits(AMPLE), workers=1) as elsewhere:
        assert runner(elsewhere)(ZONE).outputs == ("(('UTC', 'UTC'), 0, (1970, 1, 1, 0, 0, 0))",)


@linux
def test_programs_run_under_a_users_own_limit_on_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def limited(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        return start(*arguments, **named, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20)))

    monkeypatch.setattr(subprocess, "Popen", limited)
    # A child cannot have more than the hard limit, and must not fail for that.
    with Sandbox(GAME.with_limits(replace(AMPLE, cpu_s=60.0)), workers=1) as sandbox:
        assert runner(sandbox)("def f():\n    return 2", validate=True).outputs == ("2",)


def test_a_sandbox_starts_where_the_starter_of_this_process_ignored_its_children() -> None:
    code = (
        "import signal; from redqueen.jail import Job, Sandbox\n"
        "assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN\n"
        "with Sandbox(workers=1) as sandbox:\n"
        "    print(sandbox.run([Job('def f(x):\\n    return x + 1', ('41',), validate=True)])[0].outputs)"
    )

    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    done = subprocess.run([sys.executable, "-c", code], preexec_fn=ignore, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("('42',)\n", "")
