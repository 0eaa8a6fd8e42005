"""Every snippet of docs/EXTENDING.md runs, and does what its section says."""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer

from redqueen import plugins
from redqueen.cli.app_runs import _complete_benchmarks, runs
from redqueen.config import Config, EvolutionConfig, GameConfig, ModelConfig, SandboxConfig
from redqueen.config.keys import describe
from redqueen.engine.adapters import Factors
from redqueen.engine.model.base import load
from redqueen.evals.grader import OpenGraders
from redqueen.evals.held_out import reserved_tasks
from redqueen.evals.registry import chosen, load_benchmarks
from redqueen.evals.runner import Plan, Player, Runner
from redqueen.evals.samples import SampleStore
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.tasks import browse, task_view
from redqueen.method.advantages import advantages
from redqueen.method.fitness import lcb
from redqueen.method.games import par_by
from redqueen.method.judging import judge_proposals
from redqueen.method.matchmaking import matchmake
from redqueen.method.population import Member
from redqueen.method.prompts import Prompts, prompts
from redqueen.method.rating import Rating, TrueSkill
from redqueen.method.reward_probe import check_advantage, probe_attempt, probe_proposal
from redqueen.method.rewards import student_reward, teacher_reward
from redqueen.method.selection import plan_births
from redqueen.method.verifier import LocalVerifier
from redqueen.plugins import PluginError
from redqueen.records import (
    Completion,
    Draft,
    GradedRollout,
    Kind,
    Proposal,
    Request,
    Role,
    Sampler,
    Status,
    Task,
    Verdict,
)
from redqueen.run.recording.files import MetricsRecorder
from redqueen.run.recording.metrics import check_own, own_metrics, own_panels, own_values, step_metrics
from redqueen.run.recording.metrics.metric import CountedStep
from redqueen.run.recording.recorder import Session, Tracker, check_trackers, open_recorders, open_trackers
from redqueen.store.directory import RunDirectory
from redqueen.store.files import to_json
from redqueen.store.lineage import lives
from redqueen.store.metrics import numbers
from redqueen.store.tasks import proposals
from redqueen.tasks.kinds import find
from tests import tiny, toy
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen
from tests.grading import grade
from tests.reference import logits
from tests.run.recording.steps import full

PAGE = Path(__file__).parents[1] / "docs" / "EXTENDING.md"
SNIPPETS: dict[str, str] = dict(
    re.findall(r"^## An? ([^\n]+)\n.*?^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
)


def snippet(title: str) -> dict[str, Any]:
    """The names that a section's snippet defines."""
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(SNIPPETS[title], f"{PAGE.name}: {title}", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def no_part_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten at its end."""
    monkeypatch.setattr(plugins, "_parts", {})


def test_an_operator() -> None:
    fade = snippet("operator")["fade"]
    parent = {"x": Factors(torch.randn(5, 2), torch.randn(2, 3)), "y": Factors(torch.randn(4, 2), torch.randn(2, 4))}
    child = fade([parent], torch.Generator().manual_seed(0))
    again = fade([dict(reversed(parent.items()))], torch.Generator().manual_seed(0))
    assert child.keys() == parent.keys()
    for layer, factors in parent.items():
        share = child[layer].b / factors.b
        assert share.min() >= 0.5
        assert share.max() <= 1
        assert torch.equal(child[layer].b, again[layer].b)
        assert child[layer].a.data_ptr() != factors.a.data_ptr()


def test_a_fitness() -> None:
    steadiness = snippet("fitness")["steadiness"]

    def member(*rewards: float) -> Member:
        return Member("S0", "student", 0, rewards=rewards)

    assert steadiness(member(0.5)) is None
    assert steadiness(member(0.5, 0.5)) == 0 > steadiness(member(0.0, 1.0))


def test_a_reward() -> None:
    snippet("reward")
    pay = GameConfig(teacher_reward="middle", student_reward="all_or_nothing")
    valid = probe_proposal(Verdict("valid"))
    assert [teacher_reward(valid, rho, True, pay) for rho in (0.0, 0.25, 0.5, 1.0)] == [0, 0.5, 1, 0]
    assert teacher_reward(valid, 0.5, False, pay) == 0
    assert teacher_reward(probe_proposal(Verdict("error")), None, False, pay) == pay.teacher_invalid
    assert teacher_reward(probe_proposal(Verdict("infra_error")), None, False, pay) is None
    paid = [student_reward(probe_attempt(Verdict(status)), pay) for status in ("correct", "wrong", "malformed")]
    assert paid == [1, 0, -1]


def test_an_advantage() -> None:
    snippet("advantage")
    config = Config().override(["learning.advantage=w_reinforce", "learning.positive_weight=0.1"])
    check_advantage(config.advantage_settings)

    def graded(role: Role, status: Status, reward: float) -> GradedRollout:
        rollout = replace(probe_attempt(Verdict(status)).rollout, role=role, group=role)
        return GradedRollout(rollout=rollout, reward=reward, verdict=Verdict(status))

    batch = [graded("student", status, -0.5) for status in ("wrong", "malformed", "timeout")]
    batch += [graded("student", "correct", 1.0), graded("teacher", "valid", 1.0), graded("teacher", "valid", 0.0)]
    assert [sample.advantage for sample in advantages(batch, config.advantage_settings)] == [-1, -1, -1, 0.1, 1, -1]


def test_a_prompt_format(seed_tasks: dict[Kind, list[Task]]) -> None:
    prompts: Prompts = snippet("prompt format")["TitledPrompts"](GameConfig())
    task = seed_tasks["code_o"][0]
    assert prompts.attempt(task, ()).text.startswith("# exercise code_o\n")
    assert prompts.read_attempt("code_o", prompts.write_attempt(task)) == task.pairs[0].output


def test_a_matchmaking() -> None:
    snippet("matchmaking")
    ratings = {"old": Rating(25, 1), "new": Rating(25, 8)}
    drawn = [
        matchmake(ratings, {"S0": Rating()}, weighting="newcomers", trueskill=TrueSkill(), rng=random.Random(seed))
        for seed in range(20)
    ]
    assert all({match.teacher for match in matches} == {"old", "new"} for matches in drawn)
    students = {f"S{number}": Rating() for number in range(40)}
    games = Counter(
        match.teacher
        for match in matchmake(ratings, students, weighting="newcomers", trueskill=TrueSkill(), rng=random.Random(0))
    )
    # Each plays at least 10 of 40, half of its share. The others are drawn 8 to 1.
    assert games["new"] > 24 > 16 > games["old"] >= 10


def test_a_game_rule() -> None:
    snippet("game rule")
    assert par_by("damped", [{"code_o": [1.0, 0.8, 0.0]}, {"code_f": [0.1]}]) == {
        "code_o": pytest.approx(0.7),
        "code_f": pytest.approx(0.3),
    }
    assert par_by("damped", []) == {}


def test_a_survivor_rule_and_a_parent_rule() -> None:
    snippet("survivor rule")
    snippet("parent rule")
    ladder = [Member(f"S{i}", "student", born, rating=Rating(40 - i), wins=games) for i, born, games in AGES]
    rules = {"survivors": "oldest", "parents": "experienced", "gamma": 0.5, "crossover": 1.0}
    config = EvolutionConfig.model_validate(rules)
    births = plan_births(ladder, config, lcb(0), random.Random(0))
    assert [(birth.victim, birth.parents) for birth in births] == [("S2", ("S1", "S3")), ("S0", ("S1", "S3"))]


# A member's number, which is its rank; its birth; its games.
AGES = ((0, 0, 90), (1, 7, 50), (2, 3, 80), (3, 8, 60))


def test_a_verifier() -> None:
    short = "def f(x):\n    return x"
    long = "def f(x):\n" + "    x = x\n" * 8 + "    return x"
    with snippet("verifier")["ShortPrograms"](SandboxConfig(workers=1)) as verifier:
        proposals = [
            Proposal(id=str(number), kind="code_o", author="T0", step=1, draft=Draft(program, ("1",)))
            for number, program in enumerate((short, long))
        ]
        verdicts = [verdict.status for verdict, _ in judge_proposals(verifier, proposals)]
    assert verdicts == ["valid", "malformed"]


@pytest.mark.parametrize("name", ["completion", "chat"])
def test_a_kind_of_task(name: str, seed_tasks: dict[Kind, list[Task]], verifier: LocalVerifier) -> None:
    snippet("kind of task")
    repair = find("code_r")
    form = prompts(name, GameConfig())
    made = [task for each in seed_tasks["code_f"] if (task := repair.of_program(each)) is not None]
    assert len(made) > len(seed_tasks["code_f"]) / 2
    for task in made[:20]:
        assert task.program not in form.attempt(task, ()).text
        assert task.message in form.attempt(task, ()).text
        draft = form.read_proposal("code_r", form.write_proposal(task), task)
        assert isinstance(draft, Draft)
        assert draft == Draft(task.program, tuple(pair.input for pair in task.pairs)[: len(draft.inputs)], task.message)
        assert form.read_attempt("code_r", form.write_attempt(task)) == task.program
        question = repair.read_question(repair.write_question(task).splitlines())
        assert question is not None
        assert (question.message, question.pairs) == (task.message, task.pairs)
    verdict, task = verifier.judge_proposal(
        Proposal(id="p", kind="code_r", author="T0", step=1, draft=Draft("def f(x):\n    return x + 1", *REPAIRED))
    ).result()
    assert task is not None
    assert (verdict.status, task.message) == ("valid", REPAIRED[1])
    answers = ["def f(x):\n    return 1 + x", "def f(x):\n    return x", None]
    assert [verdict.status for verdict in grade(verifier, [(task, answer) for answer in answers])] == [
        "correct",
        "wrong",
        "malformed",
    ]
    asked = reserved_tasks("selection", ["code_o", "code_r"], 20, 0, verifier)
    assert {task.kind for task in asked} == {"code_o", "code_r"}


REPAIRED = (("1", "2", "3", "4"), "def f(x):\n    return x - 1")
"""The inputs and the broken program of a proposal of the kind on the page."""


class Scripted:
    """A policy whose members write what is given, whatever tokens they sample: a text by the letter of the role."""

    def __init__(self, policy: Sampler, texts: dict[str, str]) -> None:
        self.policy = policy
        self.texts = texts

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        def on_written(index: int, completion: Completion) -> None:
            if on_completion is not None:
                on_completion(index, self._written(completion))

        return [self._written(one) for one in self.policy.sample(requests, on_written)]

    def _written(self, completion: Completion) -> Completion:
        return replace(completion, text=self.texts[completion.member[0]], finish_reason="stop")


@pytest.mark.integration
def test_steps_are_played_with_a_kind_from_outside(
    tmp_path: Path, verifier: LocalVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_kind.py").write_text(SNIPPETS["kind of task"])
    seed = "# add\ndef f(x):\n    return x + {}\nf(1)\nf(2)"
    (tmp_path / "seeds.txt").write_text("\n\n".join(map(seed.format, (1, 2))))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "my_kind", raising=False)
    own = {"plugins": "my_kind", "game.kinds": "code_r,code_o", "game.seeds": tmp_path / "seeds.txt"}
    config = toy.config(tmp_path, **own, **{"run.steps": 2})
    trainer = toy.trainer(config, tmp_path / "run", verifier)
    play = trainer.self_play
    play.prompts = prompts("completion", config.game)
    broken = f"{REPAIRED[1]}\n" + "\n".join(f"f({given})" for given in REPAIRED[0])
    play.sampler = Scripted(trainer.policy, {"T": broken, "S": "def f(x):\n    return x + 2"})
    trainer.run()
    trainer.close()
    tasks = proposals(tmp_path / "run", None)
    repaired = [one.task for one in tasks if one.task is not None and one.proposal.kind == "code_r"]
    assert len(repaired) == sum(one.proposal.kind == "code_r" for one in tasks) > 0
    # The seeds add 1 or 2, and the student always adds 2.
    assert {task.rho for task in repaired} == {0.0, 1.0}
    lines = trainer.directory.metrics()
    assert lines[-1]["solve_rate_by_kind"]["code_r"] is not None
    # Without the plugin the run is read as before, in plain words.
    kept = LiveRun(tmp_path / "run")
    assert task_view(kept, repaired[0].id)["kind"] == "code_r: mend the program"
    monkeypatch.setattr(plugins, "_parts", {})
    monkeypatch.setattr(plugins, "_loaded", set())
    kept = LiveRun(tmp_path / "run")
    assert task_view(kept, repaired[0].id)["kind"] == "code_r: a program with its inputs and outputs"
    assert "code_r" in str(browse(kept, {"kind": "code_r"})["kinds"])


def regex_tasks(verifier: LocalVerifier) -> list[Task]:
    """Two tasks of each kind of the language of the page, on its reserved programs."""
    return reserved_tasks("report", ("regex_o", "regex_i", "regex_f"), 6, 0, verifier)


@pytest.mark.parametrize("format_", ["completion", "chat"])
def test_a_language(format_: str, verifier: LocalVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_parts", {})
    language = snippet("language")["Regex"]()
    texts = prompts(format_, GameConfig())
    wrong = {"regex_o": "['x']", "regex_i": "'99-99 77-77 1'", "regex_f": "x"}
    tasks = regex_tasks(verifier)
    assert {task.kind for task in tasks} == wrong.keys()
    for task in tasks:
        right = texts.read_attempt(task.kind, texts.write_attempt(task))
        verdicts = grade(verifier, [(task, right), (task, wrong[task.kind]), (task, "(a")])
        assert [verdict.status for verdict in verdicts[:2]] == ["correct", "wrong"]
        assert verdicts[2].status == "malformed"
    # What would take for ever is refused, and what is long stays quick.
    refused = ("(a+)+b", "a*a*a*a*b", "[", "a{4294967295}")
    assert {language.job(program, (repr("a" * 40),)).status for program in refused} == {"malformed"}
    outcomes = [language.job(program, (repr("a" * 40),)) for program in ("a*a*a*b", "a" * 41)]
    assert [outcome.status for outcome in outcomes] == ["ok", "oversize"]
    assert language.is_reserved(r"\d\d")
    assert not language.is_reserved(r"\d\d\d\d")
    assert language.shape(r"[a-z]+") == language.shape(r"[b-y]+") != language.shape(r"\d+")


@pytest.mark.integration
def test_a_run_in_a_language_from_outside(
    tmp_path: Path, verifier: LocalVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_parts", {})
    (tmp_path / "my_regex.py").write_text(SNIPPETS["language"])
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "my_regex", raising=False)
    own = {"plugins": "my_regex", "game.kinds": "regex_o", "game.seed_tasks": 4, "run.steps": 1}
    trainer = toy.trainer(toy.config(tmp_path, **own), tmp_path / "run", verifier)
    play = trainer.self_play
    play.prompts = prompts("completion", trainer.config.game)
    play.sampler = Scripted(trainer.policy, {"T": "[xy]\nf('x to y')", "S": "['x', 'y']"})
    trainer.run()
    trainer.close()
    tasks = proposals(tmp_path / "run", None)
    assert {(one.task and one.task.rho, one.proposal.kind) for one in tasks} == {(1.0, "regex_o")}
    view = task_view(LiveRun(tmp_path / "run"), tasks[0].proposal.id)
    assert view["kind"] == "regex_o: predict the output"


def test_a_model_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_parts", {})
    snippet("model family")
    base = load(ModelConfig(name=str(tiny.make(tmp_path, "seed_oss")), dtype="float32", workers=1, threads=1))
    ids = [7, 30, 200, 5, 7]
    with torch.no_grad():
        expected = base.model(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(logits(base.decoder, [ids])[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.integration
def test_a_recorder(tmp_path: Path, verifier: LocalVerifier) -> None:
    snippet("recorder")
    changes = {"evolution.enabled": True, "evolution.every": 1, "evolution.burn_in": 1, "run.steps": 2}
    config = toy.config(tmp_path, **changes, **{"run.recorders": "BirthLog"})
    trainer = toy.trainer(config, tmp_path / "run", verifier)
    (log,) = open_recorders(Session(directory=trainer.directory, config=config, first=1, say=print))
    trainer.watchers = (log,)
    trainer.run()
    trainer.close()
    births = (tmp_path / "run" / "births.txt").read_text()
    assert re.findall(r"^(\d): \w+ replaces \w+ \(\w+\)$", births, re.M) == ["1", "1", "2", "2"]


def test_a_tracker(tmp_path: Path, verifier: LocalVerifier) -> None:
    snippet("tracker")
    config = toy.config(tmp_path, **{"run.steps": 2, "run.trackers": "Lines"})
    trainer = toy.trainer(config, tmp_path / "run", verifier)
    said: list[str] = []
    (tracker,) = open_trackers(Session(directory=trainer.directory, config=config, first=1, say=said.append))
    trainer.watchers = (tracker,)
    trainer.run()
    trainer.close()
    tracker.send(3, {})
    tracker.close()
    assert said == [f"Lines: {tmp_path / 'run' / 'lines.txt'}"]
    lines = (tmp_path / "run" / "lines.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2"]


def test_a_tracker_without_an_end_is_refused_before_the_run() -> None:
    class Endless(Tracker):
        def send(self, step: int, values: Mapping[str, float]) -> None:
            del step, values

    plugins.tracker(Endless)
    with pytest.raises(plugins.PluginError, match="the tracker 'Endless' has no finish"):
        check_trackers(["Endless"])


def test_a_metric_that_fails_is_one_line() -> None:
    @plugins.metric("share", title="Broken")
    def broken(step: CountedStep) -> float:
        raise AttributeError("no task")

    with pytest.raises(plugins.PluginError, match="the metric 'broken' fails: AttributeError: no task: repair it"):
        own_values([broken.__name__], CountedStep(full()))


def test_a_metric(tmp_path: Path) -> None:
    snippet("metric")
    assert [key.choices for key in describe(Config) if key.name == "run.metrics"] == [("short_rate",)]
    directory = RunDirectory(tmp_path)
    recorder = MetricsRecorder(directory, ["short_rate"])
    recorder.record(full())
    (line,) = directory.metrics()
    assert line["short_rate"] == numbers(line)["short_rate"] == 1.0
    (kept,) = own_metrics(["short_rate"])
    (panel,) = own_panels([line], [kept])
    assert (panel.title, panel.unit, panel.high) == ("Short tasks", "share", 1)
    assert panel.note == "Valid tasks whose program has at most two lines / valid tasks."
    assert panel.curves == {"short rate": (1.0,)}


def test_a_metric_that_cannot_be() -> None:
    @plugins.metric("share", title="Solved")
    def solve_rate(step: CountedStep) -> float:
        return 1.0

    @plugins.metric("", title="Words")
    def words(step: CountedStep) -> dict[str, object]:
        return {"first": str(step)}

    with pytest.raises(PluginError, match="Red Queen has a metric 'solve_rate': give yours another name"):
        check_own(["solve_rate"])
    with pytest.raises(PluginError, match="'words' must give a number, a dict of numbers or None"):
        step_metrics(full(), ["words"])


def test_a_metric_may_give_numbers_of_numpy_and_torch() -> None:
    @plugins.metric("", title="Counts")
    def counts(step: CountedStep) -> dict[str, object]:
        return {"tasks": np.int64(3), "share": np.float32(0.5), "some": np.bool_(True), "loss": torch.tensor(2.5)}

    @plugins.metric("", title="Count")
    def count(step: CountedStep) -> object:
        return np.sum([1, 2])

    values = own_values(["counts", "count"], CountedStep(full()))
    assert json.loads(to_json(values)) == {
        "counts": {"tasks": 3, "share": 0.5, "some": True, "loss": 2.5},
        "count": 3,
    }


class Calculator:
    """A member that adds rightly below ten."""

    def sample(self, requests: Any, on_completion: Callable[[int, Completion], None]) -> list[Completion]:
        completions = []
        for index, request in enumerate(requests):
            total = sum(int(number) for number in re.findall(r"\d+", request.prompt.text))
            completions.append(
                Completion(
                    member=request.member,
                    version=1,
                    prompt_ids=(0,),
                    token_ids=(0,),
                    logprobs=(0.0,),
                    text=f" {total % 10}",
                    finish_reason="stop",
                )
            )
            on_completion(index, completions[-1])
        return completions


def test_a_benchmark(verifier: LocalVerifier) -> None:
    snippet("benchmark")
    assert chosen(["addition", "reserved"]) == ["reserved", "addition"]
    assert "addition" in chosen(["all"])
    (loaded,) = load_benchmarks(["addition"], Config().play_settings, verifier, None, None)
    assert loaded.whole
    plan = Plan(template="completion", samples=1, temperature=0.0, max_tokens=None, base="")
    with OpenGraders(verifier) as graders, SampleStore(None) as store:
        player = Player(name="S0", adapter="S0", label="S0")
        (rows,) = Runner(plan, Calculator(), graders, store).run(loaded, [player])
    # The 55 of the 100 sums that have one digit.
    assert Counter(row.status for row in rows) == {"correct": 55, "wrong": 45}


def test_verdicts_of_a_changed_grader_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verifier: LocalVerifier
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_loaded", set())
    plan = Plan(template="completion", samples=1, temperature=0.0, max_tokens=None, base="")
    counts: list[Counter[str]] = []
    # Two sources of one length that are written within a second would be one to Python's cache of bytecode.
    for rule in ("answer == ", "not answer == "):
        (tmp_path / "graded.py").write_text(SNIPPETS["benchmark"].replace("answer == ", rule))
        # As in a process of its own.
        monkeypatch.delitem(sys.modules, "graded", raising=False)
        importlib.invalidate_caches()
        importlib.import_module("graded")
        (loaded,) = load_benchmarks(["addition"], Config().play_settings, verifier, None, None)
        with OpenGraders(verifier) as graders, SampleStore(tmp_path / "out") as store:
            runner = Runner(plan, Calculator(), graders, store)
            (rows,) = runner.run(loaded, [Player(name="S0", adapter="S0", label="S0")])
        counts.append(Counter(row.status for row in rows))
    assert counts == [{"correct": 55, "wrong": 45}, {"correct": 45, "wrong": 55}]


def test_a_benchmark_with_a_name_that_is_taken_is_refused() -> None:
    plugins.benchmark(type("aime24", (), {}))
    with pytest.raises(PluginError, match="has a benchmark 'aime24'"):
        chosen(["reserved"])


@pytest.mark.slow
@pytest.mark.integration
def test_a_benchmark_from_outside_is_evaluated_and_completed(
    tmp_path: Path, tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_sums.py").write_text(SNIPPETS["benchmark"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    model = str(tiny_folder("llama"))
    args = ("eval", "base", "--model", model, "--plugins", "my_sums", "--benchmarks", "addition", "--limit", "3")
    done = redqueen(*args, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "addition" in done.stdout
    own = ("plugins=my_sums", "evals.benchmarks=addition", "evals.every=1", "evals.limit=3")
    trained = redqueen("train", "--run", "run", "--steps", "1", "--model", model, *SMALL, *own, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    (line,) = RunDirectory(tmp_path / "run").metrics()
    assert line["evals"]["addition"].keys() == {"S0", "S1"}
    context = typer.Context(typer.main.get_command(runs), info_name="eval")
    context.params = {"plugins": "my_sums"}
    assert _complete_benchmarks(context, "reserved,ad") == ["reserved,addition"]
    context.params = {"plugins": "no_such_module"}
    assert _complete_benchmarks(context, "re") == []


@pytest.mark.integration
def test_a_run_with_ones_own_parts_and_seeds(
    tmp_path: Path, tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = ("matchmaking", "game rule", "survivor rule", "parent rule")
    own = ("operator", "fitness", "reward", "advantage", "prompt format", "kind of task", *rules, "recorder", "metric")
    (tmp_path / "my_parts.py").write_text("\n".join(SNIPPETS[title] for title in own))
    seeds = re.search(r"^```text\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert seeds is not None
    (tmp_path / "my_seeds.txt").write_text(f"{seeds[1]}\n{seeds[1].replace('longest', 'last')}")
    # The command of the page, with what makes a run on a tiny model quick.
    command = re.search(r"redqueen train plugins.*?\n\n", PAGE.read_text(), re.S)
    assert command is not None
    words = [word for word in command[0].split() if "=" in word]
    monkeypatch.setattr(sys, "path", list(sys.path))
    args = [
        *words,
        *SMALL,
        "game.seeds=my_seeds.txt",
        "game.seed_lines=none",
        "evolution.every=1",
        "evolution.burn_in=1",
    ]
    done = redqueen("train", "--model", str(tiny_folder("llama")), "--steps", "2", *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "quickstart"
    assert {born.operator for born in lives(run)} == {"init", "fade"}
    # With two members of a role and a quarter of a place at risk, there is a birth in every second step or so.
    assert len((run / "births.txt").read_text().splitlines()) == sum(life.born > 0 for life in lives(run))
    config = RunDirectory(run).config()
    assert config.plugins == ("my_parts",)
    # The run is read without the module, and goes on only with it.
    monkeypatch.setattr(plugins, "_parts", {})
    monkeypatch.setattr(plugins, "_loaded", set())
    monkeypatch.delitem(sys.modules, "my_parts")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    elsewhere = redqueen("report", str(run))
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert [metric.title for metric in RunDirectory(run).own_metrics()] == ["Short tasks"]
    assert all("short_rate" in line for line in RunDirectory(run).metrics())
    resumed = redqueen("train", "--resume", str(run), "--steps", "3", "--load-plugins")
    assert resumed.returncode == 2
    assert "plugins=my_parts cannot be imported" in resumed.stderr
    assert len(resumed.stderr.splitlines()) == 1


def test_no_snippet_is_left_out() -> None:
    tests = "_and_".join(name.removeprefix("test_") for name in globals() if name.startswith("test_"))
    tested = {name.removeprefix("an_").removeprefix("a_") for name in tests.split("_and_")}
    assert len(SNIPPETS) == len(re.findall(r"^## An? ", PAGE.read_text(), re.M))
    assert {title.replace(" ", "_") for title in SNIPPETS} <= tested
