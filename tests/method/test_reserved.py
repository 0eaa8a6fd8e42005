"""The reserved programs: good tasks, similar to no seed and not to each other, up to names and constants."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import redqueen
from redqueen.jail import canonical, parse_literal
from redqueen.method.judging import judge_proposals
from redqueen.method.seeds import is_reserved
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, Proposal, Task, Verdict
from redqueen.tasks.programs.normal_form import shape
from redqueen.tasks.python import reserved, seeds


def shapes(drafts: tuple[Draft, ...]) -> set[str]:
    return {shape(draft.program) for draft in drafts}


@pytest.fixture(scope="module")
def verdicts(verifier: LocalVerifier) -> list[tuple[Verdict, Task | None]]:
    drafts = reserved()
    return judge_proposals(
        verifier,
        [Proposal(id=f"r{i}", kind="code_f", author="seed", step=0, draft=draft) for i, draft in enumerate(drafts)],
    )


def test_there_are_enough_of_all_lengths_from_two_to_ten_lines() -> None:
    assert len(reserved()) >= 120
    for half in (reserved("selection"), reserved("report")):
        assert {len(draft.program.splitlines()) for draft in half} == set(range(2, 11))


def test_the_halves_are_equal_and_make_the_whole() -> None:
    selection, report = reserved("selection"), reserved("report")
    assert len(selection) == len(report)
    assert Counter(selection + report) == Counter(reserved())


def test_no_reserved_program_is_alike_to_a_seed_or_to_another_reserved_one() -> None:
    assert not shapes(reserved()) & shapes(seeds())
    assert not shapes(reserved("selection")) & shapes(reserved("report"))
    assert len(shapes(reserved())) == len(reserved())


def test_no_message_is_shared_with_a_seed_or_twice_reserved() -> None:
    messages = Counter(draft.message for draft in (*reserved(), *seeds()))
    assert [draft.message for draft in reserved() if messages[draft.message] > 1] == []


@pytest.mark.slow
def test_every_reserved_program_is_a_valid_task_with_eight_different_inputs_and_some_different_outputs(
    verdicts: list[tuple[Verdict, Task | None]],
) -> None:
    bad: list[str] = []
    for draft, (verdict, task) in zip(reserved(), verdicts, strict=True):
        if task is None:
            bad.append(f"{draft.message}: {verdict.status} {verdict.detail}")
        elif len(task.pairs) != 8:
            bad.append(f"{draft.message}: {len(task.pairs)} different inputs")
        elif len({canonical(parse_literal(pair.output)) for pair in task.pairs}) < 2:
            bad.append(f"{draft.message}: one output")
    assert bad == []


def test_a_program_alike_to_a_reserved_one_is_recognised() -> None:
    assert is_reserved("def f(number):\n    return number * 7")
    assert not is_reserved("def f(x):\n    return x + 3")


def test_only_evaluation_reads_the_reserved_programs_and_others_only_refuse_them() -> None:
    root = Path(redqueen.__file__).parent
    readers: set[str] = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if called and node.func.attr == "reserved":
                readers.add(path.relative_to(root).parts[0])
    # A language reads its own.
    assert readers == {"evals", "tasks", "extras"}
