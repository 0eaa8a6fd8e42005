"""A profile is data: another one works without any change of the child."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from redqueen.jail import GAME, Job, Limits, Profile, Sandbox

OTHER = Profile(
    entry="solve",
    modules=("math", "random", "datetime"),
    withheld=("open", "eval"),
    stdin="3\n4\n",
    limits=Limits(wall_s=120.0, memory_mb=64, output_bytes=100),
)


@pytest.fixture(scope="module")
def other() -> Iterator[Sandbox]:
    with Sandbox(OTHER, workers=1) as sandbox:
        yield sandbox


def test_the_game_has_one_profile_and_it_cannot_be_changed() -> None:
    assert GAME.entry == "f"
    assert GAME.stdin == ""
    assert len(set(GAME.modules)) == len(GAME.modules) == 22
    assert "input" in GAME.withheld
    with pytest.raises(dataclasses.FrozenInstanceError):
        GAME.entry = "g"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Profile("f", (), (), "", Limits())  # type: ignore[misc]


def test_other_limits_leave_the_rules_alone() -> None:
    brief = GAME.with_limits(Limits(cpu_s=0.1))
    assert brief.limits == Limits(cpu_s=0.1)
    assert brief.with_limits(GAME.limits) == GAME
    assert brief.encoded() == GAME.encoded()


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        ("def solve():\n    return 1", "ok", "1"),
        ("def f():\n    return 1", "malformed", "no top-level function solve"),
        ("import random\ndef solve():\n    return random.Random(7).randrange(10) < 10", "ok", "True"),
        ("import re\ndef solve():\n    return 1", "forbidden", "import of re"),
        ("def solve():\n    return open('x')", "forbidden", "open at line 2"),
        ("def solve():\n    return int(input()) + int(input())", "ok", "7"),
        ("import sys\ndef solve():\n    return 1", "forbidden", "import of sys"),
        ("def solve():\n    return 'x' * 200", "oversize", "output 0 is more than 100 bytes"),
    ],
    ids=["entry", "another entry", "module", "no module", "withheld", "standard input", "always refused", "limit"],
)
def test_another_profile_has_its_own_rules(other: Sandbox, program: str, status: str, said: str) -> None:
    (outcome,) = other.run([Job(program, ("",))])
    assert outcome.status == status
    assert said in (*outcome.outputs, outcome.detail)


def test_each_program_finds_the_whole_standard_input(other: Sandbox) -> None:
    reading = Job("def solve():\n    return input()", ("",))
    assert [outcome.outputs for outcome in other.run([reading, reading])] == [("'3'",), ("'3'",)]


def test_a_profile_with_a_module_that_is_not_there_starts_nothing() -> None:
    profile = dataclasses.replace(OTHER, modules=("no_such_module",))
    with Sandbox(profile, workers=1) as sandbox:
        (outcome,) = sandbox.run([Job("def solve():\n    return 1", ("",))])
    assert outcome.status == "infra_error"
    assert outcome.detail == "it did not start: ModuleNotFoundError: No module named 'no_such_module'"
