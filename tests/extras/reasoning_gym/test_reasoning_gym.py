"""Generators of reasoning-gym as kinds of tasks. With the library itself (`make test-gym`) they are made and scored."""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from redqueen.config import ConfigError, GameConfig, SandboxConfig
from redqueen.config.recipes import configure
from redqueen.errors import UserError
from redqueen.evals.registry import chosen
from redqueen.extras.reasoning_gym import EVALUATED, HELD_OUT, Answering, generator_of
from redqueen.method.judging import judge_proposals
from redqueen.method.prompts import prompts
from redqueen.method.verifier import LocalVerifier, answer_to
from redqueen.plugins import PluginError
from redqueen.records import Draft, Pair, Proposal, Task, Verdict
from redqueen.tasks.kinds import SeedError, find, is_kind
from redqueen.tasks.kinds.kind import InputCounts
from tests import tiny
from tests.cli.running import redqueen

LIBRARY = importlib.util.find_spec("reasoning_gym")
needs_library = pytest.mark.skipif(LIBRARY is None, reason="reasoning-gym is not installed: make test-gym")
SUMS = "reasoning_gym:chain_sum:max_terms=3:max_digits=1"


@pytest.fixture(scope="module")
def judge() -> Iterator[LocalVerifier]:
    with LocalVerifier(SandboxConfig(workers=2)) as verifier:
        yield verifier


def task_of(judge: LocalVerifier, name: str) -> Task:
    """The first task of a generator, validated."""
    draft = find(name).language.seeds()[0]
    ((verdict, task),) = judge_proposals(judge, [Proposal(id="one", kind=name, author="seed", step=0, draft=draft)])
    assert task is not None, verdict
    return task


def test_a_source_names_kinds_for_students_alone() -> None:
    config = configure(["rlvr", "game.source=reasoning_gym:countdown,chain_sum:max_terms=3:max_digits=1"])
    assert config.game.kinds == ("reasoning_gym:countdown", SUMS)
    kind = find(SUMS)
    assert isinstance(kind, Answering)
    assert kind.generator.settings == {"max_terms": 3, "max_digits": 1}
    with pytest.raises(ConfigError, match=r"for students alone: set population\.teachers=0"):
        configure(["quickstart", "game.source=reasoning_gym:countdown"])


@pytest.mark.parametrize("source", ["countdown", "reasoning_gym:", "reasoning_gym:a,,b", "reasoning_gym:a:b", "x:y"])
def test_a_source_of_another_form_is_refused(source: str) -> None:
    with pytest.raises(ConfigError):
        configure(["rlvr", f"game.source={source}"])


def test_settings_are_read_as_python_or_json_writes_them() -> None:
    generator = generator_of("reasoning_gym:chain_sum:a=False:b=true:c=None:d=3:e=words")
    assert generator is not None
    assert generator.settings == {"a": False, "b": True, "c": None, "d": 3, "e": "words"}


def test_what_is_no_generator_is_no_kind() -> None:
    assert not is_kind("reasoning_gym")
    with pytest.raises(PluginError):
        find("reasoning_gym:a:b")


@pytest.mark.skipif(LIBRARY is not None, reason="reasoning-gym is installed")
def test_without_the_library_a_line_says_what_installs_it() -> None:
    with pytest.raises(UserError, match=r"needs reasoning_gym, which is not installed: pip install '\.\[gym\]'"):
        find("reasoning_gym:countdown").language.seeds()


@needs_library
def test_a_generator_that_is_not_there_is_named() -> None:
    with pytest.raises(SeedError, match="no generator 'countdowns': did you mean 'countdown'"):
        find("reasoning_gym:countdowns").language.seeds()
    with pytest.raises(SeedError, match="no generator 'xyz', and none is like it"):
        find("reasoning_gym:xyz").language.seeds()
    with pytest.raises(SeedError, match="cannot make it: TypeError"):
        find("reasoning_gym:countdown:hardness=3").language.seeds()


@needs_library
@pytest.mark.parametrize("name", ["countdown", "mini_sudoku", "leg_counting", "word_sorting"])
def test_the_library_scores_answers_in_the_jail(judge: LocalVerifier, name: str, tmp_path: Path) -> None:
    task = task_of(judge, f"reasoning_gym:{name}")
    kind = find(task.kind)
    right = kind.recorded_answer(task)
    hostile = f"__import__('os').system('touch {tmp_path}/out')"
    answers = [right, "17", hostile, "9**9**9**9" if name == "countdown" else "\udcff\0", None]
    statuses = [judge.judge_answer(answer_to(task, answer)).result().status for answer in answers]
    assert statuses[:3] == ["correct", "wrong", "wrong"]
    assert statuses[3] in ("timeout", "memory", "wrong", "malformed")
    assert statuses[4] == "malformed"
    assert not list(tmp_path.iterdir())


@needs_library
def test_a_question_of_another_item_is_no_task(judge: LocalVerifier) -> None:
    first, second = find(SUMS).language.seeds()[:2]
    forged = Proposal(id="one", kind=SUMS, author="seed", step=0, draft=type(first)(first.program, second.inputs))
    ((verdict, task),) = judge_proposals(judge, [forged])
    assert task is None
    assert verdict.status == "error"


def test_an_item_whose_recorded_answer_is_blank_is_no_task() -> None:
    name = "reasoning_gym:ab"
    proposal = Proposal(id="one", kind=name, author="seed", step=0, draft=Draft("Which is left?", ("'ab', {}, 18",)))
    for output, status in (("''", "error"), ("' '", "error"), ("'A#'", "valid")):
        pairs = (Pair("'ab', {}, 18", output),)
        verdict, task = find(name).made(proposal, pairs, Verdict("valid"), InputCounts(least=1, most=1))
        assert (verdict.status, task is not None) == (status, status == "valid")


@needs_library
def test_held_out_questions_are_asked_nowhere_else() -> None:
    language = find(SUMS).language
    reserved = language.reserved()
    assert 100 < len(reserved) <= HELD_OUT
    assert not {draft.inputs for draft in reserved} & {draft.inputs for draft in language.seeds()}
    # Small sums repeat, so that the task bank has to refuse some.
    assert any(language.is_reserved(draft.program) for draft in language.seeds())
    assert {*language.reserved("selection"), *language.reserved("report")} == {*reserved}


@needs_library
@pytest.mark.parametrize("style", ["completion", "chat"])
def test_what_a_format_writes_as_an_answer_it_reads(judge: LocalVerifier, style: str) -> None:
    for name in (SUMS, "reasoning_gym:mini_sudoku"):
        task = task_of(judge, name)
        form = prompts(style, GameConfig())
        assert task.program.strip() in form.attempt(task, ()).text
        read = form.read_attempt(task.kind, form.write_attempt(task))
        assert read == find(name).recorded_answer(task)


@needs_library
def test_the_scorers_that_evaluate_answers_are_the_known_ones() -> None:
    # An answer that such a scorer gets could say that it is right. A new version may evaluate more.
    from reasoning_gym.factory import DATASETS

    assert LIBRARY is not None
    evaluating: set[str] = set()
    for name, (dataset, _) in DATASETS.items():
        module = importlib.util.find_spec(dataset.__module__)
        assert module is not None
        assert module.origin is not None
        for node in ast.walk(ast.parse(Path(module.origin).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "score_answer":
                calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
                called = {ast.unparse(call.func).rpartition(".")[2] for call in calls}
                if called & {"eval", "exec", "parse_expr", "sympify", "S", "compile"}:
                    evaluating.add(name)
    # What a task's author recorded may be evaluated: number_sorting does.
    assert evaluating - {"number_sorting"} == set(EVALUATED)


def test_a_generator_is_a_benchmark() -> None:
    assert chosen([SUMS, "reserved", "reasoning_gym:countdown", SUMS]) == ["reserved", SUMS, "reasoning_gym:countdown"]
    with pytest.raises(UserError, match="no benchmark 'countdown'"):
        chosen(["countdown"])


@needs_library
@pytest.mark.integration
def test_anybody_is_measured_on_what_a_generator_holds_out(tmp_path: Path) -> None:
    model = tiny.make(tmp_path / "model")
    asked = ["--benchmarks", f"reasoning_gym:leg_counting,{SUMS}", "--limit", "3", "--max-tokens", "4", "--json"]
    done = redqueen("eval", "base", "--model", str(model), *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert list(found["benchmarks"]) == ["reasoning_gym:leg_counting", SUMS]


@needs_library
@pytest.mark.integration
def test_a_student_trains_on_a_generator(tmp_path: Path) -> None:
    model = tiny.make(tmp_path / "model")
    run = tmp_path / "run"
    settings = ["model.rank=2", "game.proposals=2", "game.attempts=2", "sampling.attempt_tokens=4", "learning.lr=1e-3"]
    held_out = ["evals.every=1", "evals.limit=3", "population.init=fresh", "model.workers=1"]
    source = f"game.source={SUMS},leg_counting"
    done = redqueen(
        "train", "rlvr", source, "--model", str(model), "--run", str(run), "--steps", "1", *settings, *held_out
    )
    assert done.returncode == 0, done.stdout + done.stderr
    line = json.loads((run / "metrics.jsonl").read_text())
    assert line["tasks_by_kind"] == {SUMS: 2, "reasoning_gym:leg_counting": 2}
    assert "evaluated on 3 held-out tasks" in done.stdout
    for command in (["show", str(run)], ["report", str(run)], ["tasks", "export", str(run), "--out", f"{run}.jsonl"]):
        shown = redqueen(*command)
        assert shown.returncode == 0, shown.stdout + shown.stderr
    again = ["train", "rlvr", f"game.tasks={run}.jsonl", f"game.kinds={SUMS}", "--dry-run", "--model", str(model)]
    assert redqueen(*again).returncode == 0
